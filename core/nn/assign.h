// Assignments: what a step makes of its state.
#pragma once

#include "core/nn/parameter.h"

namespace lockstep {

// After the step the tensor is `value`, of its own shape and dtype: any arithmetic, element by element, of
// state, gradients (grad), sums over micro-batches (sum_lanes) and scalars. A Parameter gives what it was
// before the step, assigned() what it is afterwards. Like an optimizer's update it is made by the rows that a
// rank owns, in one launch with others of its kind, and left out where the loss, or a norm of gradients, is
// not finite. UserError: an empty Tensor, another type, a second assignment in one step.
void assign(const Parameter& parameter, Tensor value, Here at = Here::current());

// The same in place of what assign() or reassign() said before in this step, if anything: for what grows with
// every call of a layer, from assigned().
void reassign(const Parameter& parameter, Tensor value, Here at = Here::current());

// What this step has assigned to the tensor so far, by assign() or an optimizer's update; its value before
// the step where there is nothing yet.
Tensor assigned(const Parameter& parameter, const Tensor& beside);

}  // namespace lockstep
