// A trainrun that another launcher started as one of several ranks.
#pragma once

#include <string>
#include <vector>

namespace lockstep::launcher::cli {

// If torchrun or a similar launcher started this process and no flag places ranks, adds such flags to the
// words of `run` in the host's first process (launcher/supervise/hosts/other_launcher.h). True: this was not the
// first process, and the first one has now ended.
bool waited_for_first(std::vector<std::string>& words);

// UserError if mpirun, srun or torchrun started this process as one of several, because each would start the
// whole run.
void refuse_under_a_launcher();

}  // namespace lockstep::launcher::cli
