// Chat templates: the places where transformers looks for one.
#include "launcher/hf/chat_template.h"

#include <filesystem>

#include "core/files/plain_file.h"
#include "core/reading/json_text.h"

namespace lockstep::launcher::hf {

namespace fs = std::filesystem;

namespace {
constexpr int64_t kMostBytes = int64_t{16} << 20;

std::string text_of(const std::string& path) {
  std::string text, why;
  return read_plain(path, text, why, kMostBytes) ? text : "";
}
}  // namespace

std::optional<Json> with_chat_template(const std::string& folder, const Json& trained) {
  for (const char* member : {"message_token", "jinja"})
    if (!trained.is_object() || !trained.contains(member) || !trained[member].is_string()) return {};
  const std::string config = folder + "/tokenizer_config.json";
  std::error_code unknown;
  Json out = {{"tokenizer_class", "PreTrainedTokenizerFast"}};
  if (fs::exists(config, unknown)) {
    out = bounded_json(text_of(config), {.members = kAllMembers});
    if (!out.is_object()) return {};
  } else if (!fs::exists(folder + "/tokenizer.json", unknown)) {
    return {};
  }
  const std::string files[] = {folder + "/chat_template.jinja", folder + "/chat_template.json"};
  const std::string token = trained["message_token"].get<std::string>();
  std::string there = out.contains("chat_template") ? out["chat_template"].dump() : "";
  for (const auto& file : files)  // transformers reads these first
    if (fs::exists(file, unknown)) there = text_of(file);
  if (there.find(token) != std::string::npos) return {};
  for (const auto& file : files) fs::remove(file, unknown);
  out["chat_template"] = trained["jinja"];
  return out;
}

}  // namespace lockstep::launcher::hf
