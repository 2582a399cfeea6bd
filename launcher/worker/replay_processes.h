// Runs the ranks of a replay as processes that work in a temporary folder.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/loop/replay.h"
#include "launcher/supervise/launch/options.h"
#include "launcher/supervise/run/attempt.h"

namespace lockstep::launcher {

// The request file for the ranks, and the variable that names it.
struct ReplayFiles {
  std::string request, answer;  // paths in the temporary folder
};
// `ask` writes the request and returns the command of a rank, with its additional variables. Returns the
// outcome of the ranks, and their answer if it is complete; empty: rank 0 gave none.
struct ReplayLaunch {
  LaunchOptions launch;
  std::vector<std::pair<std::string, std::string>> variables;
};
AttemptOutcome replay_in_processes(Console& console,
                                   const std::function<ReplayLaunch(const ReplayFiles&)>& ask, Json& answer);

// Reports the outcome. Returns the exit code.
int tell_replay(const AttemptOutcome& outcome, int64_t step, Console& console);

Json read_json_file(const std::string& path);

}  // namespace lockstep::launcher
