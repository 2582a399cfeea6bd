// Flags of other launchers (torchrun, mpirun, accelerate), and their equivalents here.
#pragma once

#include <string>
#include <vector>

namespace lockstep::launcher::cli {

// Drops flags of other launchers that change nothing here (--standalone, --nnodes 1), and replaces those with
// a counterpart (-np 2). UserError for one that requests an unsupported feature.
std::vector<std::string> without_foreign_flags(const std::vector<std::string>& words);

// Whether a word is such a flag and its value is the next word.
bool foreign_flag_with_value(const std::string& word);

}  // namespace lockstep::launcher::cli
