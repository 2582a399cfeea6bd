// Words, two and two.
#include "launcher/cli/spaced_values.h"

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

std::vector<std::string> with_joined_values(const std::vector<std::string>& words) {
  std::vector<std::string> out;
  // A flag is explained as it is written.
  if (words.size() == 2 && words[0] == "explain" && words[1].starts_with("--") && words[1] != "--help")
    return {words[0], words[1].substr(2)};
  for (size_t i = 0; i < words.size(); ++i) {
    out.push_back(words[i]);
    const ConfigKey* key = spaced_key(words[i]);
    // An option of a model or a task that a library registers later; a config behind it is the command's.
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

}  // namespace lockstep::launcher::cli
