// The ranks of a replay as processes that work in a temporary folder.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/loop/replay.h"
#include "launcher/supervise/attempt.h"
#include "launcher/supervise/options.h"

namespace lockstep::launcher {

// What the ranks are asked in a file, and what tells them its name.
struct ReplayFiles {
  std::string request, answer;  // paths in the temporary folder
};
// `ask` writes the request and says what starts a rank, with the variables that it has beside the usual ones.
// The outcome of the ranks, and their answer where it is whole; empty: rank 0 gave none.
struct ReplayLaunch {
  LaunchOptions launch;
  std::vector<std::pair<std::string, std::string>> variables;
};
AttemptOutcome replay_in_processes(Console& console,
                                   const std::function<ReplayLaunch(const ReplayFiles&)>& ask, Json& answer);

// Says what came of it. Returns the exit code.
int tell_replay(const AttemptOutcome& outcome, int64_t step, Console& console);

Json read_json_file(const std::string& path);

}  // namespace lockstep::launcher
