// trainrun --simulate N: the N-rank program in this process, ranks as threads.
#pragma once

#include "launcher/config/config.h"
#include "launcher/supervise/run_folder.h"

namespace lockstep::launcher {

// Trains like `nproc` ranks in processes of their own: same bits, same run folder, same exit codes. Ranks
// share the cores. After a stop request the process is ended when `grace` seconds are over. UserError as
// in_place_device.
int simulate(const RunConfig& config, int64_t nproc, const RunFolder& folder, double grace);

}  // namespace lockstep::launcher
