// Recomputation: one micro-batch of a step once more, on every data rank, for its checksums: ranks that
// compute right give the same.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "compiler/program/step_blocks.h"
#include "compiler/runtime/executor.h"
#include "compiler/runtime/step_io.h"

namespace lockstep::compiler {

class Recomputation {
 public:
  // Beside a step's program, in its memory as far as that goes. All but `rank` outlives this. UserError where
  // memory is out.
  Recomputation(const StepPlan& plan, const StepProgram& step, const Executor& memory,
                const ProgramRank& rank, const LiveMesh& mesh, Device& device, Reductions& reductions);
  // The state and the scalars lie where the step reads them; StepInput::check_replicas is set there. `finish`
  // waits for the stream. The checksums of the body's outputs, in a fixed order.
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
