// build_program: the instructions of a rank's step, from its plan.
#pragma once

#include "compiler/program/step_blocks.h"

namespace lockstep::compiler {

// Policies: StepPlan::options.gather says whether weights are gathered once a step, in every micro-batch, or
// layer by layer over all of them; LanePlan whether gradients travel once a step or in rounds. UserError
// where a sum would have more addends than the device takes.
StepProgram build_program(const StepPlan& plan, StepBlocks blocks, const ProgramRank& rank);
// The micro-batches of a step up to their gradients, one after another, which changes no state: `body` stands
// in for the plan's, and each of its groups is shown where it is ready. Weights are not rounded again.
StepProgram build_inspection(const StepPlan& plan, ProgramBlock body, const ProgramRank& rank);

}  // namespace lockstep::compiler
