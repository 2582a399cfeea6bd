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

}  // namespace lockstep
