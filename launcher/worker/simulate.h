// trainrun --simulate N: the N-rank program in this process, ranks as threads.
#pragma once

#include "launcher/config/config.h"
#include "launcher/supervise/folders/run.h"

namespace lockstep::launcher {

// Trains like `nproc` rank processes: same bits, same run folder, same exit codes. Ranks share the cores. The
// process is ended `grace` seconds after a stop request. UserError as in_place_device.
int simulate(const RunConfig& config, int64_t nproc, RunFolder& folder, double grace);

}  // namespace lockstep::launcher
