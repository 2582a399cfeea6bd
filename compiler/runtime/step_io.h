// The inputs and results of a step.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::compiler {

struct TracedStep;  // step_recorder.h

using StepScalars = std::map<std::string, double>;  // from the host: "optim.lr", ...

// The values that change from step to step.
struct StepInput {
  int64_t step = 0;  // counted from 1
  // Fills `count` sequences from global index `first` of this step, one pointer per field. Called on the
  // thread that runs the step.
  std::function<void(int64_t first, int64_t count, const std::vector<void*>& fields)> fill = {};
  int64_t vote = 0;  // summed over the ranks with the token counts: how ranks agree to stop
  // The same for step + 1, if there is one. Called while the device runs this step, so that the next one need
  // not wait for its data.
  std::function<void(int64_t first, int64_t count, const std::vector<void*>& fields)> fill_next = {};
  bool trace = false;           // whether to make StepResult::traced; such a step runs call by call
  bool check_replicas = false;  // whether to make StepResult::replica_sums
  int64_t replica_word = 0;     // replica_word() of the previous step; summed together with the vote
  // The step's updates are applied if the loss and the norms of gradients are finite and at most these.
  float loss_limit = std::numeric_limits<float>::max(), norm_limit = std::numeric_limits<float>::max();
  // The data's name for sample `sample` of this step, "row 7 of the arrays", for messages; empty: none.
  std::function<std::string(int64_t sample)> name = {};
  // For an evaluation: polled between the calls of its micro-batches; once true, it must stay true. The
  // remaining computation is then skipped, but communication is not, so that each rank may decide alone. The
  // result is void. If set, the step runs call by call. Empty: never.
  std::function<bool()> give_up = {};
};

struct StepResult {
  std::map<std::string, double> metrics;  // "loss", "tokens", "grad_norm": whole values, equal on every rank
  int64_t votes = 0;
  // False: loss or norm exceeded its limit, and weights and moments are bit for bit the same as before the
  // step.
  bool applied = true;
  // Derived from the words of all ranks; the same on every rank. If the scalars of the step differ, there is
  // no result: the step throws a UserError on every rank, which names them.
  bool replicas_differ = false;
  // Per row of Step::replicas(), its checksum right before the step's updates; empty if not requested.
  std::vector<uint64_t> replica_sums;
  // Seconds for which this rank's work waited for collectives, per mesh dim; "data" for all data dims
  // together; "inside_hosts", "across_hosts".
  std::map<std::string, double> exposed;
  std::shared_ptr<const TracedStep> traced;  // if it was requested
};

}  // namespace lockstep::compiler
