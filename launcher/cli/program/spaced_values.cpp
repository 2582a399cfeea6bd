// Joins words "--key" "value" to "--key=value".
#include "launcher/cli/program/spaced_values.h"

#include <unistd.h>

#include <filesystem>

namespace lockstep::launcher::cli {

const ConfigKey* spaced_key(const std::string& word) {
  if (!word.starts_with("--") || word.find('=') != std::string::npos) return nullptr;
  const std::string path = word.substr(2);
  return find_key(path == "init_from" || path == "init-from" ? "train.init_from" : path);
}

bool names_a_program(const std::string& word) {
  std::error_code failed;
  return !word.empty() && word[0] != '-' && word.find('/') != std::string::npos && !word.ends_with(".json") &&
         std::filesystem::is_regular_file(word, failed) && access(word.c_str(), X_OK) == 0;
}

namespace {
bool is_number(const std::string& word) {
  return !word.empty() && word.find_first_not_of("0123456789") == std::string::npos;
}

std::vector<std::string> joined(const std::vector<std::string>& words) {
  std::vector<std::string> out;
  // `explain` accepts a flag with its dashes.
  if (words.size() == 2 && words[0] == "explain" && words[1].starts_with("--") && words[1] != "--help")
    return {words[0], words[1].substr(2)};
  for (size_t i = 0; i < words.size(); ++i) {
    out.push_back(words[i]);
    const ConfigKey* key = spaced_key(words[i]);
    // May be an option of a model or task that a library registers later; a config after it is the command's.
    const bool of_library = !key && (words[i].starts_with("--model.") || words[i].starts_with("--task.")) &&
                            words[i].find('=') == std::string::npos;
    if (of_library && i + 1 < words.size() && !words[i + 1].starts_with("--") &&
        !words[i + 1].ends_with(".json"))
      out.back() += "=" + words[++i];
    if (!key || i + 1 == words.size() || words[i + 1].starts_with("--")) continue;
    if (key->fallback.is_boolean() && words[i + 1] != "true" && words[i + 1] != "false") continue;
    out.back() += "=" + words[++i];
  }
  return out;
}
}  // namespace

std::vector<std::string> with_flag_values(const std::vector<std::string>& words, const CLI::App& command) {
  std::vector<std::string> out;
  for (size_t i = 0; i < words.size(); ++i) {
    out.push_back(words[i]);
    const CLI::Option* flag = words[i].starts_with("--") ? command.get_option_no_throw(words[i]) : nullptr;
    if (!flag || flag->get_items_expected_min() > 0 || i + 1 == words.size()) continue;
    const std::string& next = words[i + 1];
    const bool counts = is_number(flag->get_flag_value(words[i].substr(2), ""));  // as --profile
    if (counts ? is_number(next) : next == "true" || next == "false") out.back() += "=" + words[++i];
  }
  return out;
}

std::vector<std::string> with_joined_values(const std::vector<std::string>& words) {
  for (const char* one : {"run", "plan", "show", "replay", "import-hf", "explain"})  // these read config keys
    if (words[0] == one) return joined(words);
  return words;
}

}  // namespace lockstep::launcher::cli
