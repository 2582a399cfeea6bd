// The ranks of a replay (launcher/loop/replay.h): threads of this process, processes of a config's run, or
// those of a program. Nothing is written into the run's folder.
#pragma once

#include <string>
#include <vector>

#include "launcher/loop/replay.h"
#include "launcher/worker/worker.h"

namespace lockstep::launcher {

struct ConfigReplay {
  RunConfig config;
  ReplayTask task;
};

// As a rank of `world`. Collective. Returns kExitOk, with the result on every rank, or kExitStopped when it
// was asked to stop before. UserError when no checkpoint is whole, or config and mesh do not fit.
int replay_rank(const ConfigReplay& asked, const WorkerPlace& at, std::shared_ptr<distributed::World> world,
                const RunHooks& hooks, ReplayResult& result);

// Where the ranks of a replay are.
struct ReplayPlace {
  int64_t nproc = 1;
  bool processes = false;  // of their own; else threads of this process
  std::string self;        // path of trainrun
};
// Runs the ranks. Returns kExitOk with the result, kExitStopped, or the code of a failure, whose cause it has
// told.
int run_replay(const ConfigReplay& asked, const ReplayPlace& place, ReplayResult& result);

// The same of a program of the user's own, which is started by `command` on each rank and replays the step
// in its train() into `run`. UserError where it ends without one.
struct ProgramReplay {
  std::vector<std::string> command;
  std::string run;
  ReplayTask task;
};
int run_replay(const ProgramReplay& asked, int64_t nproc, ReplayResult& result);

// A rank that is a process of a config's: `file` is what run_replay wrote for it.
int replay_worker(const std::string& file, const WorkerPlace& at);

}  // namespace lockstep::launcher
