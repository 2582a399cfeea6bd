// Flags of other launchers (torchrun, mpirun, accelerate): what each is here.
#pragma once

#include <string>
#include <vector>

namespace lockstep::launcher::cli {

// The words of a run without flags of other launchers that change nothing here (--standalone, --nnodes 1),
// and with counterparts in place of those that have one (-np 2). UserError with one sentence for one that
// asks for what is not there.
std::vector<std::string> without_foreign_flags(const std::vector<std::string>& words);

// Whether a word is such a flag, and its value stands behind it.
bool foreign_flag_with_value(const std::string& word);

}  // namespace lockstep::launcher::cli
