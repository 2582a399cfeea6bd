// Step: a compiled training (or evaluation) step on this rank: a program, its memory, and what goes in and
// comes out.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "compiler/program/program.h"
#include "compiler/program/step_plan.h"
#include "compiler/runtime/block_runner.h"
#include "compiler/runtime/step_io.h"
#include "core/mesh/array.h"

namespace lockstep::compiler {

class Step {
 public:
  using Scalars = StepScalars;
  // `array_of` gives this rank's arrays of the state by FQN; they are updated in place, and a step that is
  // applied counts as one of Array::updates. `scalars_of` is asked once per step, before anything is read of
  // the state. `lender`: a step of the same device that never runs at the same time and outlives this
  // one; what keeps nothing from run to run lies in its memory, where that has room (lent_places); null:
  // none.
  Step(StepPlan plan, const LiveMesh& mesh, uint64_t seed, std::function<Array*(const std::string&)> array_of,
       std::function<Scalars(int64_t step)> scalars_of, const Step* lender = nullptr);
  ~Step();
  Step(Step&&) noexcept;
  Step& operator=(Step&&) noexcept;

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

  // Computes one micro-batch of `input` again, up to its gradients, on every data rank from the same samples
  // and keys, and changes no state: the checksums of its loss and gradients, which are equal on all ranks
  // that have the same place along the model dims. It takes the step's own kernels and memory. Collective.
  // UserError on all ranks when memory is out.
  std::vector<uint64_t> recompute(const StepInput& input, int64_t micro_batch);

  // What other ranks hold too: state that is replicated along a mesh dim, and the rounded weights that a step
  // computes with.
  const std::vector<Replica>& replicas() const;
  // Checksums of the state's part of them as they are now; of the others, 0.
  std::vector<uint64_t> checksums_now();

  // What the last run divided the terms of its loss by; nothing before, and where it is not told.
  const std::vector<double>& counted() const;
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

}  // namespace lockstep::compiler
