// StepBlocks: the planned blocks of a step, and the rank that runs its program.
#pragma once

#include <vector>

#include "compiler/program/build/step_plan.h"
#include "compiler/program/sums/bucket_sum.h"
#include "compiler/program/words/program.h"

namespace lockstep::compiler {

// The planned blocks of a step's phases.
struct StepBlocks {
  ProgramBlock count, seed, body, copies, maxima, cast, scales;
  std::vector<ProgramBlock> fragments;
  int64_t arena_bytes() const;
};
StepBlocks plan_blocks(const StepPlan& plan);
ProgramBlock plan_body(const StepPlan& plan);
ProgramBlock plan_seed(const StepPlan& plan);
// For copies of rows of sparse tables, for as many micro-batches at once as the body runs.
ProgramBlock plan_copies(const StepPlan& plan, int64_t micro_batches);
// From StepProgram::blocks.
StepBlocks blocks_of(std::vector<ProgramBlock> blocks);

// The rank that runs the program.
struct ProgramRank {
  Mesh mesh;
  int64_t rank = 0;
  int seats = 0;  // data ranks per host, if gradients go inside hosts first; else 0
  SumLimits limits = {};
};
SumPlan sum_plan_of(const StepPlan& plan, const ProgramRank& rank);

}  // namespace lockstep::compiler
