// The forms of a step's gradient sums: which kernels add them, known before blocks are planned.
#pragma once

#include <set>
#include <utility>
#include <vector>

#include "compiler/program/build/step_blocks.h"

namespace lockstep::compiler {

struct SumForms {
  std::set<size_t> lefts = {};  // of each Accumulate
  // Of SumTrees: merges, dtypes of sources.
  std::set<std::pair<std::vector<int>, std::vector<DType>>> trees = {};
  bool operator==(const SumForms&) const = default;
};
// The sums in the instructions of a step.
SumForms sum_forms(const StepProgram& program);
// Predicts the sums of a rank's step from its lanes and the dtypes of its gradients, so that kernels can be
// compiled while its blocks are planned. It assumes that `plan.options.together` micro-batches can run
// together; only the blocks show whether they can, and whether there is memory for it.
SumForms foretold_sum_forms(const StepPlan& plan, const ProgramRank& rank);

}  // namespace lockstep::compiler
