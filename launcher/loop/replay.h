// Replay: recomputes a step of a run with its workload from an earlier checkpoint. Nothing is written.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/base/json.h"
#include "launcher/loop/replay_tape.h"
#include "launcher/loop/training_loop.h"

namespace lockstep::launcher {

struct ReplayTask {
  std::vector<std::string> checkpoints;  // step folders before the step, newest first; the first whole one is
                                         // loaded. Empty: initial weights
  int64_t step = 0;                      // computes steps up to this one
  bool evaluate = false;                 // and its validation
  KeepOfReplay keep = {};                // data of the last step to keep in files
};

// The results as text, with numbers as in metrics.jsonl.
struct ReplayResult {
  using Values = std::map<std::string, std::string>;
  Values values;  // "loss", "lr", "state_hash", "certificate"; other metrics; "val_loss" and its companions
                  // if measured
  std::map<int64_t, Values> on_the_way;  // row values of the steps before it
  // Each tensor of the state after the step, in the state's order: its FQN and the hash of its elements.
  std::vector<std::pair<std::string, std::string>> tensors;
  // the same before the step, if ReplayTask::keep asks for it
  std::vector<std::pair<std::string, std::string>> before;
  std::string from;  // the loaded checkpoint, "" for initial weights
  std::string mesh, library;
  std::string data;  // fingerprint of the current data; "" if not computed
};
Json to_json(const ReplayResult& result);
ReplayResult replay_result(const Json& json);

// Runs on each rank of the workload's mesh, after its check(). Collective. kExitOk with the result on every
// rank, or kExitStopped if asked to stop. UserError when no checkpoint is intact.
int replay(const RunConfig& config, Workload& work, const RunHooks& hooks, const ReplayTask& task,
           ReplayResult& out);

// The request of trainrun replay to the ranks of a program, in a file that LOCKSTEP_REPLAY names.
struct ReplayRequest {
  std::string run;  // the run's folder, absolute: train() into another one is not replayed
  ReplayTask task;
  std::string answer;  // the file that rank 0 writes the result to
};
std::string text(const ReplayRequest& request);
// UserError for a text that is not a request.
ReplayRequest replay_request(const std::string& text);

}  // namespace lockstep::launcher
