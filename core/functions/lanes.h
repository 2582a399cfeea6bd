// Sums over all micro-batches of a step, on all ranks: the same bits on any number of ranks.
#pragma once

#include "core/ops/apply.h"

namespace lockstep {

// The sum of x, f32 [...] or i64 []. Floats are summed in an order that depends only on the number of
// micro-batches, like gradients; integers are exact. For metrics and for statistics that an update reads: the
// sum is known after the last micro-batch. Integers are summed before the first micro-batch, so they must not
// depend on trained state.
inline Tensor sum_lanes(Tensor x, Here at = Here::current()) { return apply1(ops::sum_lanes, {x}, {}, at); }
// The sum of a count [], i64 or floats, known before the step computes with its weights: the divisor of a
// loss. Floats are summed exactly as integers, for f32 below 2^120, and the result is f64. The result is NaN
// if a count cannot be represented so, or if the sum is not 0 and is outside [2^-126, 2^126), where f32 has
// no inverse. The count may read data and buffers, but not state that the step replaces.
Tensor sum_counts(Tensor count, Here at = Here::current());

}  // namespace lockstep
