// Recomputation: runs one micro-batch of a step again on every data rank and returns checksums, which are
// equal on all ranks that compute correctly.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "compiler/program/build/step_blocks.h"
#include "compiler/runtime/executor.h"
#include "compiler/runtime/step_io.h"

namespace lockstep::compiler {

class Recomputation {
 public:
  // Runs next to a step's program, in its memory as far as possible. All arguments except `rank` must outlive
  // this. UserError if there is not enough memory.
  Recomputation(const StepPlan& plan, const StepProgram& step, const Executor& memory,
                const ProgramRank& rank, const LiveMesh& mesh, Device& device, Reductions& reductions);
  // Returns the checksums of the body's outputs, in a fixed order. The state and the scalars must be where
  // the step reads them, with StepInput::check_replicas set. `finish` waits for the stream.
  std::vector<uint64_t> run(const StepInput& input, int64_t micro_batch, Stream& stream,
                            const std::function<void()>& finish);
  const std::vector<Group*>& groups() const { return executor_->groups(); }

 private:
  void fill(const StepInput& input, int64_t micro_batch);

  const StepPlan& plan_;
  Device& device_;
  StepProgram program_;
  std::unique_ptr<Executor> executor_;
};

}  // namespace lockstep::compiler
