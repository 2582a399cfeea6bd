// Chooses the end token.
#include "launcher/data/tokenizer/end_token.h"

#include <filesystem>

#include "core/base/error.h"
#include "core/files/plain_file.h"
#include "core/reading/json_text.h"

namespace lockstep::launcher::data {

namespace {
// The member of tokenizer_config.json: a text, or an object with "content".
std::string configured(const std::string& tokenizer) {
  std::string text, why;
  const auto beside = std::filesystem::path(tokenizer).parent_path() / "tokenizer_config.json";
  if (!read_plain(beside.string(), text, why, kJsonBytes)) return "";
  const Json config = bounded_json(text, {.members = kAllMembers});  // lists each added token
  if (!config.is_object() || !config.contains("eos_token")) return "";
  const Json& token = config["eos_token"];
  if (token.is_string()) return token.get<std::string>();
  return token.is_object() && token.contains("content") && token["content"].is_string()
             ? token["content"].get<std::string>()
             : "";
}
}  // namespace

std::string tokenizer_file_of(const std::string& path) {
  std::error_code unknown;
  if (!std::filesystem::is_directory(path, unknown)) return path;
  const std::string json = path + "/tokenizer.json", model = path + "/tokenizer.model";
  return !std::filesystem::exists(json, unknown) && std::filesystem::exists(model, unknown) ? model : json;
}

std::optional<int32_t> end_token(const Tokenizer& tokenizer, const std::string& chosen) {
  if (chosen == "none") return {};
  if (chosen != "auto") {
    if (const auto id = tokenizer.id(chosen)) return id;
    throw UserError(str("data.eos is \"", printable(chosen), "\", and ", tokenizer.path(),
                        " has no such token; name one that it has, auto or none"));
  }
  if (const std::string name = configured(tokenizer.path()); !name.empty())
    if (const auto id = tokenizer.id(name)) return id;
  for (const char* name :
       {"<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "<|im_end|>", "<|eot_id|>", "<|end|>"})
    if (const auto id = tokenizer.id(name)) return id;
  return {};
}

}  // namespace lockstep::launcher::data
