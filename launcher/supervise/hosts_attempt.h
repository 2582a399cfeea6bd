// One attempt on several hosts: an mpirun starts the ranks, and this process watches it, their logs and their
// records, which lie in a folder that all hosts see.
#pragma once

#include <string>

#include "launcher/supervise/attempt.h"

namespace lockstep::launcher {

// As run_attempt, for a command of several hosts. The ranks of all hosts are gone on return, but for those of
// a host that was cut off, which end by themselves when their daemon misses mpirun's.
AttemptFacts run_hosts_attempt(const LaunchCommand& command, const std::string& log_dir, StopRequest& stop,
                               Console& console);

}  // namespace lockstep::launcher
