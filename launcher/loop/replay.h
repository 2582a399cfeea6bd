// Replay: a step of a finished part of a run, computed again by its workload from a checkpoint before it.
// Nothing is written.
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
  int64_t step = 0;                      // steps up to this one are computed
  bool evaluate = false;                 // and its validation
  KeepOfReplay keep = {};                // what is left of the last step in files
};

// What came out, as text: numbers as metrics.jsonl has them.
struct ReplayResult {
  using Values = std::map<std::string, std::string>;
  Values values;  // "loss", "lr", "state_hash", "certificate"; other metrics, and "val_loss" and its
                  // companions where they are made
  std::map<int64_t, Values> on_the_way;  // of the steps before it: what a row has of each
  // Each tensor of the state after the step, in the state's order: its FQN and the hash of its elements.
  std::vector<std::pair<std::string, std::string>> tensors;
  std::vector<std::pair<std::string, std::string>>
      before;        // the same before the step, where ReplayTask::keep asks
  std::string from;  // the checkpoint that was loaded, "" for initial weights
  std::string mesh, library;
  std::string data;  // fingerprint of the data now; "" where none is made
};
Json to_json(const ReplayResult& result);
ReplayResult replay_result(const Json& json);

// On a rank of the workload's mesh, after its check(). Collective. kExitOk, with the result on every rank, or
// kExitStopped when it was asked to stop before. UserError when no checkpoint is whole.
int replay(const RunConfig& config, Workload& work, const RunHooks& hooks, const ReplayTask& task,
           ReplayResult& out);

// What trainrun replay tells the ranks of a program: LOCKSTEP_REPLAY names a file with it.
struct ReplayRequest {
  std::string run;  // the run's folder, absolute: train() into another one is not replayed
  ReplayTask task;
  std::string answer;  // the file that rank 0 writes the result to
};
std::string text(const ReplayRequest& request);
// UserError for a text that is no request.
ReplayRequest replay_request(const std::string& text);

}  // namespace lockstep::launcher
