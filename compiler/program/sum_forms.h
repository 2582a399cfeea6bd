// The forms of a step's sums of gradients: what kernels add them, known before blocks are planned.
#pragma once

#include <set>
#include <utility>
#include <vector>

#include "compiler/program/step_blocks.h"

namespace lockstep::compiler {

struct SumForms {
  std::set<size_t> lefts = {};  // of each Accumulate
  std::set<std::pair<std::vector<int>, std::vector<DType>>> trees =
      {};  // of SumTrees: merges, dtypes of sources
  bool operator==(const SumForms&) const = default;
};
// What the instructions of a step add.
SumForms sum_forms(const StepProgram& program);
// What a rank's step will add: its lanes and the dtypes of its gradients decide it, so that kernels may be
// compiled while its blocks are planned. Whether `plan.options.together` micro-batches can run together, and
// have room to, is known from the blocks alone, and taken for granted here.
SumForms foretold_sum_forms(const StepPlan& plan, const ProgramRank& rank);

}  // namespace lockstep::compiler
