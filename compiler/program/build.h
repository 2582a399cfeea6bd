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
// One micro-batch on each data rank, in one slot, with the step's own blocks, up to its gradients: of each
// group of the body's outputs the checksums, in their order, in the region "checksums of answers". It changes
// no state, and weights are not rounded again.
StepProgram build_recomputation(const StepPlan& plan, StepBlocks blocks, const ProgramRank& rank);

}  // namespace lockstep::compiler
