// Sums over all micro-batches of a step, on all ranks: the same bits on any number of ranks.
#pragma once

#include "core/ops/apply.h"

namespace lockstep {

// Of x, f32 [...] or i64 []: floats in an order that the number of micro-batches alone gives, as gradients
// are; integers exactly. For metrics, and for statistics that an update reads: the step knows the sum after
// the last micro-batch. Integers are summed before the first: they must not depend on trained state.
inline Tensor sum_lanes(Tensor x, Here at = Here::current()) { return apply1(ops::sum_lanes, {x}, {}, at); }
// Of a count [], i64 or floats, known before the step computes with its weights: losses are divided by it.
// Floats are summed as whole numbers, exactly for f32 below 2^120, and give f64. NaN where one of them is not
// held so, or the sum is not 0 and outside [2^-126, 2^126), where f32 has no inverse of it. The count may
// read data and buffers, not state that the step replaces.
Tensor sum_counts(Tensor count, Here at = Here::current());

}  // namespace lockstep
