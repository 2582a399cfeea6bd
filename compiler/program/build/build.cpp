// The entry points of the builder.
#include "compiler/program/build/build.h"

#include <utility>

#include "compiler/program/build/builder.h"
#include "compiler/program/build/offload.h"

namespace lockstep::compiler {

StepProgram build_program(const StepPlan& plan, StepBlocks blocks, const ProgramRank& rank) {
  StepProgram program = StepBuilder(plan, std::move(blocks), rank).build();
  stage_moments(program, plan.phases.whole);
  return program;
}

StepProgram build_inspection(const StepPlan& plan, ProgramBlock body, const ProgramRank& rank) {
  ProgramBlock copies = plan_copies(plan, body.micro_batches);
  StepBlocks blocks{plan_block({plan.count}, plan.options),
                    plan_seed(plan),
                    std::move(body),
                    std::move(copies),
                    plan_block({plan.maxima}, plan.options),
                    plan_block({plan.cast}, plan.options),
                    plan_block({plan.scales}, plan.options),
                    {}};
  return StepBuilder(plan, std::move(blocks), rank).build_inspection();
}

StepProgram build_recomputation(const StepPlan& plan, StepBlocks blocks, const ProgramRank& rank) {
  return StepBuilder(plan, std::move(blocks), rank).build_recomputation();
}

}  // namespace lockstep::compiler
