// Whether the ranks of this host fit in its memory, before they take any.
#pragma once

#include <string>

#include "launcher/supervise/contract.h"
#include "launcher/trainer/trainer.h"

namespace lockstep::launcher {

// For a run on the CPU: why it cannot be, with the table of what a rank needs; "" where it can. Rank 0 of a
// host looks, for all that are on it; what small models need is not planned again, since a guess is enough.
// Where only the bounds of what libraries take do not fit, the run is warned and tried. UserError from the
// plan.
std::string check_host_memory(const RunConfig& config, const State& state, const Trainer& trainer,
                              int64_t sequences, const WorkerPlace& at);

}  // namespace lockstep::launcher
