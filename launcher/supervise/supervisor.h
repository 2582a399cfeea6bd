// trainrun's heart: attempts, restarts, and the exit code.
#pragma once

#include "launcher/supervise/options.h"
#include "launcher/supervise/run_folder.h"

namespace lockstep::launcher {

// Runs the group to its end, restarting it after a PeerError, a rank that left early or a death by signal as
// often as RestartBudget lets it, with the ranks that Membership says. A run that lacks ranks, or has a slow
// host, is also stopped at a step boundary and started anew, which is no restart. Prints what it does and, at
// the end of a failed run, the root cause. Returns the exit code (core/base/error.h; kExitProgram; 128 +
// signal when a second signal killed the run). UserError when the program cannot be started. `folder` is held
// by the caller.
int supervise(const LaunchOptions& options, const RunFolder& folder);

}  // namespace lockstep::launcher
