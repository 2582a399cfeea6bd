// The supervisor: runs the attempts of a run, decides on restarts, and returns the exit code.
#pragma once

#include "launcher/supervise/folders/run.h"
#include "launcher/supervise/launch/options.h"

namespace lockstep::launcher {

// Runs the group to its end, restarting it after a PeerError, a rank that left early or a death by signal as
// often as RestartBudget allows, with the ranks that Membership chooses. A run that lacks ranks or has a slow
// host is also stopped at a step boundary and started again, which does not count as a restart. Prints its
// actions and, after a failed run, the root cause. Returns the exit code (core/base/error.h; kExitProgram;
// 128 + signal when a second signal killed the run). UserError when the program cannot be started. The caller
// holds `folder`.
int supervise(const LaunchOptions& options, RunFolder& folder);

}  // namespace lockstep::launcher
