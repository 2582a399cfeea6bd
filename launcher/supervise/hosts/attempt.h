// One attempt on several hosts: mpirun starts the ranks, and this process watches mpirun and the ranks' logs
// and records in a folder that all hosts see.
#pragma once

#include <string>

#include "launcher/supervise/run/attempt.h"

namespace lockstep::launcher {

// Like run_attempt, for several hosts. On return all ranks are gone, except those on a host that was cut off;
// they end when their daemon loses mpirun.
AttemptFacts run_hosts_attempt(const LaunchCommand& command, const std::string& log_dir, StopRequest& stop,
                               Console& console);

}  // namespace lockstep::launcher
