// Splits a command line with a user program: words before the program are trainrun's, words after it are the
// program's.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace lockstep::launcher::cli {

// Removes the program and all later words from the words of a command (words[0]) and returns them; empty if
// positional word `place` (from 0) is not a program. `takes_value`: whether a flag's value may be the next
// word (config keys are known here).
std::vector<std::string> take_program(std::vector<std::string>& words, int place,
                                      const std::function<bool(const std::string& flag)>& takes_value);

// The words before a program that are not trainrun's flags.
struct BeforeProgram {
  std::string name;                // of --name=NAME; "": not given
  std::vector<std::string> words;  // keys for the Session, passed as the program's first arguments
};
// UserError for any other word.
BeforeProgram before_program(const std::vector<std::string>& words, const std::string& program);

// A note about trainrun flags after the program, which count as its arguments; "" for none.
std::string flags_behind(const std::vector<std::string>& arguments, const std::string& program);

}  // namespace lockstep::launcher::cli
