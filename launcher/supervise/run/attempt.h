// One attempt: starts the ranks, echoes their output, forwards signals, and returns when the last descendant
// process has ended.
#pragma once

#include <string>

#include "launcher/supervise/launch/command.h"
#include "launcher/supervise/launch/console.h"
#include "launcher/supervise/run/cause.h"
#include "launcher/supervise/run/user_signals.h"

namespace lockstep::launcher {

// Runs the ranks to their end. SIGUSR1 passes a request of `stop` to the ranks; if need be they are killed.
// When a rank fails, the others are ended. On return all descendant processes and their shared memory are
// gone. UserError when the program cannot be started.
class StopRequest;
AttemptFacts run_attempt(const LaunchCommand& command, const std::string& log_dir, StopRequest& stop,
                         Console& console);

// Adds to `facts` what ended ranks left: error records of the folder, and those in `told` that came as output
// lines (also appended to the ranks' logs); how many ranks stopped with their state saved and why; the
// furthest step; any disagreement.
class LateWatch;
void read_what_ranks_left(AttemptFacts& facts, const std::string& log_dir,
                          const std::vector<ErrorRecord>& told, const LateWatch& late,
                          const StopRequest& stop);

// The last step that a rank began, from its flight record (the mapped file progress-R, which outlives the
// process); -1 without one.
int64_t last_step(const std::string& log_dir, int64_t rank);

}  // namespace lockstep::launcher
