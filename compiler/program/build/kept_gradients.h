// Kept gradients: with one micro-batch on one data rank, gradients are already sums. They stay where the body
// wrote them, in the dtype in which they would travel.
#pragma once

#include <map>
#include <vector>

#include "compiler/program/build/step_plan.h"

namespace lockstep::compiler {

// Sums over lanes of the typed program, each with its kept dtype: f32 or bf16.
using KeptGradients = std::map<ValueId, DType>;

// Empty if there is anything to add. A gradient in bf16 is kept if only updates read its sum. Their kernels
// widen it, which is exact, so bits do not depend on this.
KeptGradients kept_gradients(const StepPlan& plan);

// The inputs of an update that are f32 in its arithmetic and stored in bf16.
std::vector<int> halves_of(const Node& update, const KeptGradients& kept);

}  // namespace lockstep::compiler
