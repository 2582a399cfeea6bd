// compile(): from the user's step function to a step that runs. Traced once, compiled on rank 0, machine code
// sent to the other ranks.
#pragma once

#include "compiler/runtime/step.h"
#include "compiler/trace/trace.h"
#include "core/nn/state.h"

namespace lockstep::compiler {

struct BatchShape {
  int64_t global = 0;  // samples per step, over all ranks
  int64_t micro = 0;   // per micro-batch
  int64_t lanes = 0;   // 0: default_lanes(global / micro)
};

// What the compiler knows of a step before any kernel is built: enough to plan, print and check it. Needs no
// peers.
StepPlan plan_step(const State& state, const Mesh& mesh, const std::vector<BatchField>& batch,
                   const BatchShape& shape, const StepFunction& function, const CompileOptions& options);

// A step on its way: planned for its state's own mesh, its kernels begun on rank 0.
struct BegunStep {
  StepPlan plan;
  std::vector<KernelSource> sources;  // of rank 0; none where compile() still has to write them
};
// plan_step; what its kernels and sums wait for begins to compile beside the caller, who looks at the plan
// and hands it to compile(). Needs no peers.
BegunStep begin_step(const State& state, const std::vector<BatchField>& batch, const BatchShape& shape,
                     const StepFunction& function, const CompileOptions& options);

// plan_step, then kernels: rank 0 of the state's mesh compiles (or finds them in the cache), the others load
// its machine code. Collective over the mesh. UserError, on every rank, when something does not compile.
// `lender`: another step of this state that never runs at the same time and outlives this one, as the
// training step an evaluation: this one lies in its memory where that has room; null: none.
Step compile(State& state, const std::vector<BatchField>& batch, const BatchShape& shape,
             const StepFunction& function, const CompileOptions& options, const Step* lender = nullptr);
// The same of what begin_step made of this state on every rank.
Step compile(State& state, BegunStep begun, const Step* lender = nullptr);

// Says, on one rank, that a step writes no tensor of the state, where it was compiled to train.
void tell_no_update(const Step& step, const State& state);

}  // namespace lockstep::compiler
