// Runs the ranks of a replay (launcher/loop/replay.h) as threads, as processes of a config's run, or as
// processes of a program. Nothing is written into the run's folder.
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

// Replays as a rank of `world`. Collective. Returns kExitOk with the result on every rank, or kExitStopped if
// asked to stop. UserError when no checkpoint is intact, or config and mesh do not fit.
int replay_rank(const ConfigReplay& asked, const WorkerPlace& at, std::shared_ptr<distributed::World> world,
                const RunHooks& hooks, ReplayResult& result);

// Where the ranks of a replay are.
struct ReplayPlace {
  int64_t nproc = 1;
  bool processes = false;  // ranks are processes; else threads of this process
  std::string self;        // path of trainrun
};
// Runs the ranks. Returns kExitOk with the result, kExitStopped, or the code of a failure, whose cause it has
// printed.
int run_replay(const ConfigReplay& asked, const ReplayPlace& place, ReplayResult& result);

// The same for a user program, which `command` starts on each rank and which replays the step in its train()
// into `run`. UserError when it ends without that.
struct ProgramReplay {
  std::vector<std::string> command;
  std::string run;
  ReplayTask task;
};
int run_replay(const ProgramReplay& asked, int64_t nproc, ReplayResult& result);

// The main function of a rank process of a config's replay: `file` was written by run_replay.
int replay_worker(const std::string& file, const WorkerPlace& at);

}  // namespace lockstep::launcher
