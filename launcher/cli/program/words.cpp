// Splits a command line at the program, by torchrun's rule.
#include "launcher/cli/program/words.h"

#include <algorithm>

#include "core/base/error.h"
#include "launcher/api/session.h"
#include "launcher/cli/program/spaced_values.h"
#include "launcher/cli/program/target.h"
#include "launcher/config/config.h"
#include "launcher/config/run_names.h"

namespace lockstep::launcher::cli {

namespace {
bool is_value(const std::string& flag, const std::string& next,
              const std::function<bool(const std::string&)>& takes_value) {
  if (flag.find('=') != std::string::npos) return false;
  if (takes_value(flag)) return true;
  const ConfigKey* key = spaced_key(flag);
  return key && !next.starts_with("--") && (!key->fallback.is_boolean() || next == "true" || next == "false");
}
}  // namespace

std::vector<std::string> take_program(std::vector<std::string>& words, int place,
                                      const std::function<bool(const std::string& flag)>& takes_value) {
  for (size_t i = 1; i < words.size(); ++i) {
    if (words[i].starts_with("-")) {
      if (i + 1 < words.size() && is_value(words[i], words[i + 1], takes_value)) ++i;
      continue;
    }
    if (place-- > 0) continue;
    if (!names_a_program(words[i]) && !is_python_program(words[i])) return {};
    const auto at = words.begin() + static_cast<std::ptrdiff_t>(i);
    std::vector<std::string> out(at, words.end());
    words.erase(at, words.end());
    return out;
  }
  return {};
}

BeforeProgram before_program(const std::vector<std::string>& words, const std::string& program) {
  BeforeProgram out;
  const auto& keys = Session::keys();
  for (const auto& word : words) {
    const std::string key = word.starts_with("--") ? word.substr(2, word.find('=') - 2) : "";
    if (word.starts_with("--name=")) {
      out.name = word.substr(7);
      if (const std::string error = no_run_name(out.name, "--name"); !error.empty()) throw UserError(error);
    } else if (std::find(keys.begin(), keys.end(), key) != keys.end()) {
      out.words.push_back(word);
    } else {
      throw UserError(str(word, " stands before ", program,
                          " and is no flag of trainrun: arguments of the program come after it, as in "
                          "trainrun --nproc 2 ",
                          program, " ", word));
    }
  }
  return out;
}

std::string flags_behind(const std::vector<std::string>& arguments, const std::string& program) {
  std::vector<std::string> found;
  for (const auto& word : arguments)
    for (const char* flag : {"--nproc", "--nproc-per-node", "--nproc_per_node", "--max-restarts"})
      if (word == flag || word.starts_with(str(flag, "="))) found.push_back(word);
  if (found.empty()) return "";
  return str(join(found, ", "), found.size() == 1 ? " stands" : " stand", " behind ", program,
             " and goes to it; flags of trainrun come before the program");
}

}  // namespace lockstep::launcher::cli
