// What goes into a step, and what comes out.
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

using StepScalars = std::map<std::string, double>;  // of the host: "optim.lr", ...

// What changes from step to step.
struct StepInput {
  int64_t step = 0;  // counted from 1
  // Fills `count` sequences from global index `first` of this step, one pointer per field. Called on the
  // thread that runs the step.
  std::function<void(int64_t first, int64_t count, const std::vector<void*>& fields)> fill = {};
  int64_t vote = 0;  // summed over the ranks with the token counts: how ranks agree to stop
  // The same for step + 1, where there will be one: called while a device runs this step, so that the next
  // one need not wait for its data.
  std::function<void(int64_t first, int64_t count, const std::vector<void*>& fields)> fill_next = {};
  bool trace = false;           // whether StepResult::traced is made; such a step runs call by call
  bool check_replicas = false;  // whether StepResult::replica_sums is made
  int64_t replica_word = 0;     // replica_word() of the step before: it rides with the vote
  // The step's updates are made where |loss| and the norms of gradients are at most these. NaN and infinity
  // are beyond every limit.
  float loss_limit = std::numeric_limits<float>::max(), norm_limit = std::numeric_limits<float>::max();
  // What the data calls sample `sample` of this step, "row 7 of the arrays", for a message; empty: nothing.
  std::function<std::string(int64_t sample)> name = {};
  // Of an evaluation: asked between the calls of its micro-batches, and true for good once it is. What they
  // have left to compute is then left out; what travels is not, so that each rank may decide alone. The
  // result is void. Where it is given, the step runs call by call. Empty: never.
  std::function<bool()> give_up = {};
};

struct StepResult {
  std::map<std::string, double> metrics;  // "loss", "tokens", "grad_norm": whole values, equal on every rank
  int64_t votes = 0;
  bool applied = true;  // false: loss or norm was beyond its limit, and weights and moments are, bit by bit,
                        // what they were before the step
  // As the words of all ranks say; the same on every rank. Where it is the scalars of the step that differ,
  // there is no result: the step throws a UserError on every rank, which names them.
  bool replicas_differ = false;
  // Per row of Step::replicas(), its checksum right before the step's updates; empty where it was not asked
  // for.
  std::vector<uint64_t> replica_sums;
  // Seconds that this rank's work stood still for collectives, per mesh dim; "data": of all data dims
  // together; "inside_hosts", "across_hosts".
  std::map<std::string, double> exposed;
  std::shared_ptr<const TracedStep> traced;  // where it was asked for
};

}  // namespace lockstep::compiler
