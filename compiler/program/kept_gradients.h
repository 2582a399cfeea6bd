// Gradients that are sums already: where one micro-batch on one data rank is all there is, they stay where
// the body left them, in the dtype in which they travel elsewhere.
#pragma once

#include <map>
#include <vector>

#include "compiler/program/step_plan.h"

namespace lockstep::compiler {

// Sums over lanes of the typed program, each with the dtype that it keeps: f32, or bf16.
using KeptGradients = std::map<ValueId, DType>;

// None, where there is anything to add. A gradient in bf16 is kept where updates alone read its sum: their
// kernels widen it, which is exact, so that no bit depends on what is kept.
KeptGradients kept_gradients(const StepPlan& plan);

// The inputs of an update that are f32 in its arithmetic and lie in bf16.
std::vector<int> halves_of(const Node& update, const KeptGradients& kept);

}  // namespace lockstep::compiler
