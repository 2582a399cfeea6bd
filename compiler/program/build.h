// build_program: the instructions of a rank's step, from its plan.
#pragma once

#include "compiler/program/bucket_sum.h"
#include "compiler/program/program.h"
#include "compiler/program/step_plan.h"

namespace lockstep {

// The planned blocks of a step's phases.
struct StepBlocks {
  ProgramBlock count, seed, body;
  std::vector<ProgramBlock> fragments;
  int64_t arena_bytes() const;
};
StepBlocks plan_blocks(const StepPlan& plan);
// From StepProgram::blocks.
StepBlocks blocks_of(std::vector<ProgramBlock> blocks);

// The rank that the program is for.
struct ProgramRank {
  Mesh mesh;
  int64_t rank = 0;
  int seats = 0;  // data ranks of a host, where gradients go inside hosts first; else 0
  SumLimits limits = {};
};
// Policies: StepPlan::options.gather says whether weights are gathered once a step, in every micro-batch, or
// layer by layer over all of them; LanePlan whether gradients travel once a step or in rounds. UserError
// where a sum would have more addends than the device takes.
StepProgram build_program(const StepPlan& plan, StepBlocks blocks, const ProgramRank& rank);
// The micro-batches of a step up to their gradients, one after another, which changes no state: `body` stands
// in for the plan's, and each of its groups is shown where it is ready. Weights are not rounded again.
StepProgram build_inspection(const StepPlan& plan, ProgramBlock body, const ProgramRank& rank);

}  // namespace lockstep
