// compile(): from the user's step function to a step that runs. The function is traced once; rank 0 compiles
// and sends the machine code to the other ranks.
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

// The compiler's plan of a step before any kernel is built: enough to print and check it. Needs no peers.
StepPlan plan_step(const State& state, const Mesh& mesh, const std::vector<BatchField>& batch,
                   const BatchShape& shape, const StepFunction& function, const CompileOptions& options);

// A step that is planned for its state's own mesh, and whose kernels rank 0 has started to compile.
struct BegunStep {
  StepPlan plan;
  std::vector<KernelSource> sources;  // of rank 0; empty if compile() still has to write them
};
// plan_step, and starts compiling kernels and sums in the background. The caller can inspect the plan and
// then passes it to compile(). Needs no peers.
BegunStep begin_step(const State& state, const std::vector<BatchField>& batch, const BatchShape& shape,
                     const StepFunction& function, const CompileOptions& options);

// plan_step, then kernels: rank 0 of the state's mesh compiles (or finds them in the cache), the others load
// its machine code. Collective over the mesh. UserError, on every rank, if something does not compile.
// `lender`: another step of this state, such as the training step for an evaluation. It never runs at the
// same time and outlives this one. This step uses its memory as far as there is room; null: none.
Step compile(State& state, const std::vector<BatchField>& batch, const BatchShape& shape,
             const StepFunction& function, const CompileOptions& options, const Step* lender = nullptr);
// The same for the result of begin_step on this state, on every rank.
Step compile(State& state, BegunStep begun, const Step* lender = nullptr);

// Warns, on one rank, if a step that was compiled to train writes no tensor of the state.
void tell_no_update(const Step& step, const State& state);

}  // namespace lockstep::compiler
