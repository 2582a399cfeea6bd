// A step of a finished part of a run, computed again from a checkpoint before it. Nothing is written into the
// run's folder.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "launcher/worker/worker.h"

namespace lockstep::launcher {

struct ReplayTask {
  RunConfig config;
  std::vector<std::string> checkpoints;  // step folders before the step, newest first; the first whole one is
                                         // loaded. Empty: initial weights
  int64_t step = 0;                      // steps up to this one are computed
  bool evaluate = false;                 // and its validation loss
};

// What came out, as text: numbers as metrics.jsonl has them.
struct ReplayResult {
  std::map<std::string, std::string>
      values;  // "loss", "lr", "state_hash", "certificate"; "grad_norm" and "val_loss" where they are made
  std::string from;  // the checkpoint that was loaded, "" for initial weights
  std::string mesh, library;
  std::string data;  // fingerprint of the data now
};

// As a rank of `world`. Collective. Returns kExitOk, with the result on rank 0, or kExitStopped when it was
// asked to stop before. UserError when no checkpoint is whole, or config and mesh do not fit.
int replay_rank(const ReplayTask& task, const WorkerPlace& at, std::shared_ptr<distributed::World> world,
                const RunHooks& hooks, ReplayResult& result);

// Where the ranks of a replay are.
struct ReplayPlace {
  int64_t nproc = 1;
  bool processes = false;  // of their own; else threads of this process
  std::string self;        // path of trainrun
};
// Runs the ranks. Returns kExitOk with the result, kExitStopped, or the code of a failure, whose cause it has
// told.
int run_replay(const ReplayTask& task, const ReplayPlace& place, ReplayResult& result);

// A rank that is a process: `file` is what run_replay wrote for it.
int replay_worker(const std::string& file, const WorkerPlace& at);

}  // namespace lockstep::launcher
