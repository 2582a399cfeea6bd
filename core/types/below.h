// The number next below another one, in floats of a dtype.
#pragma once

#include "core/types/dtype.h"

namespace lockstep {

// The largest element of floats that is less than x.
double below(double x, DType dtype);
// What a uniform number of [lo, hi) is at most, where rounding would reach hi; hi where both are one. Numbers
// of f64 are drawn in f32.
double most_of_uniform(double lo, double hi, DType dtype);

}  // namespace lockstep
