// Config keys whose values stand behind a space.
#pragma once

#include <string>
#include <vector>

namespace lockstep::launcher::cli {

// The same words with "--optim.lr", "1e-3" as "--optim.lr=1e-3", where the first word is a config key without
// '='. A key of true or false takes these words alone, so that a config may stand behind it; words that begin
// with "--" are no values. A program's own arguments stay as they are. Of explain the dashes of
// a flag go.
std::vector<std::string> with_joined_values(const std::vector<std::string>& words);

// Whether a word of the command line is a program of the user's: a path with a slash that may be executed.
bool names_a_program(const std::string& word);

}  // namespace lockstep::launcher::cli
