// A command line with a program of the user's own in it: what stands before the program is trainrun's, what
// stands behind it is the program's.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace lockstep::launcher::cli {

// Takes a program and all behind it out of the words of a command (words[0]); empty where none is named: the
// positional word number `place` (from 0) decides. `takes_value`: whether a flag's value may be the next
// word; config keys are known.
std::vector<std::string> take_program(std::vector<std::string>& words, int place,
                                      const std::function<bool(const std::string& flag)>& takes_value);

// The words before a program that trainrun's flags have left.
struct BeforeProgram {
  std::string name;                // of --name=NAME; "": none is given
  std::vector<std::string> words;  // keys that a Session reads, which are the program's first arguments
};
// UserError for any other word.
BeforeProgram before_program(const std::vector<std::string>& words, const std::string& program);

// A sentence on flags of trainrun's that stand behind the program and are its arguments; "" for none.
std::string flags_behind(const std::vector<std::string>& arguments, const std::string& program);

}  // namespace lockstep::launcher::cli
