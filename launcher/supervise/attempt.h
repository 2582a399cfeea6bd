// One attempt: starts the ranks, echoes them, forwards signals, and returns when the last process below this
// one has gone.
#pragma once

#include <string>

#include "launcher/supervise/cause.h"
#include "launcher/supervise/command.h"
#include "launcher/supervise/console.h"
#include "launcher/supervise/user_signals.h"

namespace lockstep::launcher {

// Runs the ranks to their end. What `stop` says they are told by SIGUSR1, or they are killed for it. When a
// rank fails, the others are ended. The processes below this one are gone on return, and so is the memory
// that they shared. UserError when the program cannot be started.
class StopRequest;
AttemptFacts run_attempt(const LaunchCommand& command, const std::string& log_dir, StopRequest& stop,
                         Console& console);

// What ranks left when they ended, into `facts`: records of errors in their folder and those `told` by other
// ways, which their logs get, too; how many stopped with their state saved and why, how far they came, and
// whether they disagree.
class LateWatch;
void read_what_ranks_left(AttemptFacts& facts, const std::string& log_dir,
                          const std::vector<ErrorRecord>& told, const LateWatch& late,
                          const StopRequest& stop);

// The last step that a rank began, from its flight record; -1 where there is none.
int64_t last_step(const std::string& log_dir, int64_t rank);

}  // namespace lockstep::launcher
