// Step: a compiled training or evaluation step on this rank: a program, its memory, inputs and results.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "compiler/program/build/step_plan.h"
#include "compiler/program/words/program.h"
#include "compiler/runtime/block_runner.h"
#include "compiler/runtime/step_io.h"
#include "core/mesh/array.h"

namespace lockstep::compiler {

class Step {
 public:
  using Scalars = StepScalars;
  // `array_of` returns this rank's arrays of the state by FQN. They are updated in place; an applied step
  // counts in Array::updates. `scalars_of` is called once per step, before the state is read.
  // `lender`: a step of the same device that never runs at the same time and outlives this one. Regions that
  // keep nothing between runs use its memory, as far as there is room (lent_places); null: none.
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

  // Runs the micro-batches of a step again, up to their gradients, without changing state. `body`: the plan's
  // body with other outputs, each a group of its own, lowered for `options`. `visit` gets the micro-batch's
  // number in the step and an output that is ready. The output is in device memory until the call returns.
  // Collective. UserError on all ranks if there is not enough memory.
  using Visit = std::function<void(int64_t micro_batch, int output, const void* data)>;
  void inspect(const StepInput& input, const Graph& body, std::shared_ptr<const KernelSet> kernels,
               const CompileOptions& options, const Visit& visit);

  // Computes one micro-batch of `input` again, up to its gradients, on every data rank from the same samples
  // and keys, without changing state. Returns the checksums of its loss and gradients, which must be equal on
  // all ranks with the same coordinates along the model dims. Uses the step's own kernels and memory.
  // Collective. UserError on all ranks if there is not enough memory.
  std::vector<uint64_t> recompute(const StepInput& input, int64_t micro_batch);

  // Data that other ranks store, too: state that is replicated along a mesh dim, and the rounded weights that
  // a step computes with.
  const std::vector<Replica>& replicas() const;
  // Current checksums of those replicas that are state; 0 for the others.
  std::vector<uint64_t> checksums_now();

  // The counts by which the last run divided the terms of its loss. Empty before the first run, and if they
  // were not reported.
  const std::vector<double>& counted() const;
  const std::string& certificate() const;  // equal certificates promise equal bits
  const StepPlan& plan() const;
  const StepProgram& program() const;
  const LanePlan& lane_plan() const;
  int64_t arena_bytes() const;      // activations and workspaces
  int64_t reduction_bytes() const;  // sums and exchanges of gradients, norms, gathered weights
  std::string describe() const;     // the body's plan as text
  std::vector<std::pair<std::string, double>> waits() const;  // of the last step: see ExposedTime::waits
  // If timing is on: of the body's calls; and of all instructions by kind, "run body", "wait", ...
  std::vector<CallTime> call_times() const;
  std::map<std::string, double> instruction_seconds() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::compiler
