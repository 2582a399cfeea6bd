// Assignments: a step replaces tensors of its state.
#pragma once

#include "core/nn/parameter.h"

namespace lockstep {

// After the step the tensor is `value`, which has its shape and dtype. `value` may be any element-wise
// arithmetic of state, gradients (grad), sums over micro-batches (sum_lanes) and scalars. Calling the
// Parameter gives the value before the step, assigned() the value after it. As with an optimizer's update,
// each rank computes the rows that it owns, similar assignments share a launch, and it is skipped if the loss
// or a gradient norm is not finite. UserError: an empty Tensor, another type, a second assignment in one
// step.
void assign(const Parameter& parameter, Tensor value, Here at = Here::current());

// The same, but replaces an earlier assign() or reassign() of this step, if any. For a value that grows with
// every call of a layer: compute it from assigned().
void reassign(const Parameter& parameter, Tensor value, Here at = Here::current());

// The value that this step has assigned to the tensor so far, by assign() or an optimizer's update; without
// one, its value before the step. `beside` is any tensor of the step.
Tensor assigned(const Parameter& parameter, const Tensor& beside);

}  // namespace lockstep
