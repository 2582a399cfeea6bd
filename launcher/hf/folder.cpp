// Folders of Hugging Face's format.
#include "launcher/hf/folder.h"

#include <filesystem>

#include "core/base/error.h"
#include "core/base/plain_file.h"
#include "core/reading/json_text.h"
#include "launcher/supervise/run_folder.h"

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
}  // namespace

Json config_json(std::string_view text, const std::string& path) {
  constexpr size_t kMostMembers = size_t{1} << 16;  // a table of 21,841 names of classes, and more
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
  if (!fs::exists(out.config_path, unknown)) return {};
  std::string text, why;
  if (!read_plain(out.config_path, text, why, kMaxConfigBytes))
    throw UserError(str("cannot read ", out.config_path, ": ", why));
  out.config = config_json(text, out.config_path);
  if (!out.config.is_object() || !out.config.contains("model_type")) return {};
  return out;
}

std::span<const std::string_view> carried_files() { return kCarried; }

void carry_files(const std::string& from, const std::string& to) {
  for (std::string_view name : kCarried) {
    const std::string file = str(from, "/", name);
    std::error_code unknown;
    if (!fs::exists(file, unknown)) continue;
    std::string text, why;
    if (!read_plain(file, text, why, kMaxCarriedBytes)) throw UserError(str("cannot read ", file, ": ", why));
    write_whole(str(to, "/", name), text);
  }
}

}  // namespace lockstep::launcher::hf
