// A trainrun that another launcher started as one of several ranks.
#pragma once

#include <string>
#include <vector>

namespace lockstep::launcher::cli {

// Of the words of `run`: where torchrun or its like started this process, and no flag says where ranks are,
// the first of its host gets the flags that do (launcher/supervise/other_launcher.h). True: it was another
// one, and has waited for the first, which has ended.
bool waited_for_first(std::vector<std::string>& words);

// UserError where mpirun, srun or torchrun started this process as one of several, each of which would begin
// the whole run.
void refuse_under_a_launcher();

}  // namespace lockstep::launcher::cli
