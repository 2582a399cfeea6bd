// build_program: the instructions of a rank's step, from its plan.
#pragma once

#include "compiler/program/build/step_blocks.h"

namespace lockstep::compiler {

// Policies: StepPlan::options.gather says whether weights are gathered once per step, in every micro-batch,
// or layer by layer over all of them. LanePlan says whether gradients travel once per step or in rounds.
// UserError if a sum would have more addends than the device accepts.
StepProgram build_program(const StepPlan& plan, StepBlocks blocks, const ProgramRank& rank);
// Runs the micro-batches of a step up to their gradients, one after another, and changes no state. `body`
// replaces the plan's body, and each of its groups is shown when it is ready. Weights are not rounded again.
StepProgram build_inspection(const StepPlan& plan, ProgramBlock body, const ProgramRank& rank);
// Runs one micro-batch on each data rank, in one slot, with the step's own blocks, up to its gradients. The
// region "checksums of answers" gets the checksums of each group of the body's outputs, in their order. It
// changes no state, and weights are not rounded again.
StepProgram build_recomputation(const StepPlan& plan, StepBlocks blocks, const ProgramRank& rank);

}  // namespace lockstep::compiler
