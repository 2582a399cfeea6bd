// Step: a compiled training (or evaluation) step on this rank: a program, its memory, and what goes in and
// comes out.
#pragma once

#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "compiler/program/program.h"
#include "compiler/program/step_plan.h"
#include "compiler/runtime/block_runner.h"
#include "core/mesh/array.h"

namespace lockstep {

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
  bool check_replicas = false;  // whether StepResult::replica_sums is made
  int64_t replica_word = 0;     // replica_word() of the step before: it rides with the vote
  // The step's updates are made where |loss| and the norms of gradients are at most these. NaN and infinity
  // are beyond every limit.
  float loss_limit = std::numeric_limits<float>::max(), norm_limit = std::numeric_limits<float>::max();
};

struct StepResult {
  std::map<std::string, double> metrics;  // "loss", "tokens", "grad_norm": whole values, equal on every rank
  int64_t votes = 0;
  bool applied = true;  // false: loss or norm was beyond its limit, and weights and moments are, bit by bit,
                        // what they were before the step
  bool replicas_differ = false;  // as the words of all ranks say; the same on every rank
  // Per row of Step::replicas(), its checksum right before the step's updates; empty where it was not asked
  // for.
  std::vector<uint64_t> replica_sums;
  // Seconds that this rank's work stood still for collectives, per mesh dim; "data": of all data dims
  // together; "inside_hosts", "across_hosts".
  std::map<std::string, double> exposed;
};

class Step {
 public:
  using Scalars = std::map<std::string, double>;  // host scalars of a step: "optim.lr", ...
  // `array_of` gives this rank's arrays of the state by FQN; they are updated in place. `scalars_of` is asked
  // once per step.
  Step(StepPlan plan, const LiveMesh& mesh, uint64_t seed, std::function<Array*(const std::string&)> array_of,
       std::function<Scalars(int64_t step)> scalars_of);
  ~Step();
  Step(Step&&) noexcept;

  // Runs one step. PeerError when a peer is lost.
  StepResult run(const StepInput& input);
  float operator()(const StepInput& input) {
    return static_cast<float>(run(input).metrics.at("loss"));
  }  // the mean loss of the step

  // Runs the micro-batches of a step again, up to their gradients, and changes no state. `body`: the plan's
  // body with other outputs, each of them a group of its own, lowered for `options`. `visit` is called with
  // the micro-batch's number in the step and the output that is ready, which lies in the device's memory
  // until the call returns. Collective. UserError on all ranks when memory is out.
  using Visit = std::function<void(int64_t micro_batch, int output, const void* data)>;
  void inspect(const StepInput& input, const Graph& body, std::shared_ptr<const KernelSet> kernels,
               const CompileOptions& options, const Visit& visit);

  // What other ranks hold too: state that is replicated along a mesh dim, and the rounded weights that a step
  // computes with.
  const std::vector<Replica>& replicas() const;
  // Checksums of the state's part of them as they are now; of the others, 0.
  std::vector<uint64_t> checksums_now();

  const std::string& certificate() const;  // equal certificates promise equal bits
  const StepPlan& plan() const;
  const StepProgram& program() const;
  const LanePlan& lane_plan() const;
  int64_t arena_bytes() const;      // activations and workspaces
  int64_t reduction_bytes() const;  // sums and exchanges of gradients, norms, gathered weights
  std::string describe() const;     // the body's plan as text
  std::vector<std::pair<std::string, double>> waits() const;  // of the last step: see ExposedTime::waits
  // Where timing is on: of the body's calls; of all instructions by kind, "run body", "wait", ...
  std::vector<CallTime> call_times() const;
  std::map<std::string, double> instruction_seconds() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep
