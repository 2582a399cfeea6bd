// Reads folders in Hugging Face's format.
#include "launcher/hf/folder.h"

#include <filesystem>

#include "checkpoint/storage/storage.h"
#include "core/base/error.h"
#include "core/files/linked_file.h"
#include "core/files/plain_file.h"
#include "core/reading/json_text.h"
#include "launcher/supervise/folders/run.h"

namespace lockstep::launcher::hf {

namespace fs = std::filesystem;

namespace {
constexpr int64_t kMaxConfigBytes = int64_t{1} << 24, kMaxCarriedBytes = int64_t{1} << 30;
constexpr std::string_view kCarried[] = {"tokenizer.json",
                                         "tokenizer_config.json",
                                         "special_tokens_map.json",
                                         "added_tokens.json",
                                         "vocab.json",
                                         "merges.txt",
                                         "vocab.txt",
                                         "tokenizer.model",
                                         "spiece.model",
                                         "chat_template.jinja",
                                         "chat_template.json",
                                         "preprocessor_config.json",
                                         "processor_config.json",
                                         "generation_config.json"};

// transformers applies a folder's adapters to the weights next to them, or to those that they name.
void refuse_adapters(const std::string& folder) {
  const std::string file = folder + "/adapter_config.json";
  std::error_code unknown;
  if (!fs::exists(file, unknown)) return;
  const bool weights = fs::exists(folder + "/config.json", unknown);
  throw UserError(
      str(folder, " holds adapters of PEFT (adapter_config.json)",
          weights ? " beside a model, which transformers computes with both: " : " and no model: ",
          "merge them, by AutoPeftModelForCausalLM.from_pretrained(...).merge_and_unload() and "
          "save_pretrained, and name the folder that this writes",
          weights ? "; or move adapter_config.json away, and the weights alone are read" : ""));
}

// The folder, or the weights file in it that config.json names.
std::string tensors_named(const HfFolder& of) {
  const Json named = of.config.value("transformers_weights", Json());
  if (named.is_null()) return of.folder;
  const std::string name = named.is_string() ? named.get<std::string>() : "";
  if (name.find('/') != std::string::npos ||
      !(name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json")))
    throw UserError(str(of.config_path, ": transformers_weights is ", shortened(printable(named.dump()), 120),
                        "; it must name a .safetensors file, or the index of several, beside it"));
  return of.folder + "/" + name;
}
}  // namespace

Json config_json(std::string_view text, const std::string& path) {
  constexpr size_t kMostMembers = size_t{1} << 16;  // enough for a table of 21,841 class names, and more
  JsonText read = read_json(text, Comments::refused, {.members = kMostMembers, .bytes = kMaxConfigBytes});
  if (!read.errors.empty()) throw UserError(str(path, ": ", read.errors[0]));
  if (read.members_left_out)
    throw UserError(str(path, " has an object of ", kMostMembers + read.members_left_out,
                        " members; at most ", kMostMembers, " are read"));
  return std::move(read.value);
}

std::optional<HfFolder> open_folder(const std::string& path) {
  std::error_code unknown;
  const bool folder = fs::is_directory(path, unknown);
  const std::string above = fs::path(path).parent_path().string();
  HfFolder out{folder ? path : above.empty() ? "." : above, path, "", Json()};
  out.config_path = out.folder + "/config.json";
  if (folder) refuse_adapters(path);
  if (!fs::exists(out.config_path, unknown)) return {};
  refuse_linked_away(out.config_path, out.folder);
  std::string text, why;
  if (!read_plain(out.config_path, text, why, kMaxConfigBytes))
    throw UserError(str("cannot read ", out.config_path, ": ", why));
  out.config = config_json(text, out.config_path);
  if (!out.config.is_object() || !out.config.contains("model_type")) return {};
  if (folder) out.tensors = tensors_named(out);
  return out;
}

std::span<const std::string_view> carried_files() { return kCarried; }

void carry_files(const std::string& from, const std::string& to, CarriedFor whom) {
  for (std::string_view name : kCarried) {
    const std::string file = str(from, "/", name);
    std::error_code unknown;
    if (!fs::exists(file, unknown)) continue;
    refuse_linked_away(file, from);
    std::string text, why;
    if (!read_plain(file, text, why, kMaxCarriedBytes)) throw UserError(str("cannot read ", file, ": ", why));
    if (whom == CarriedFor::owner)
      write_whole(str(to, "/", name), text);
    else
      checkpoint::write_text(checkpoint::shared_file_storage(), str(to, "/", name), text);
  }
}

}  // namespace lockstep::launcher::hf
