// The next smaller number in a float dtype.
#pragma once

#include "core/types/dtype.h"

namespace lockstep {

// The largest number of the float dtype that is less than x.
double below(double x, DType dtype);
// The largest uniform number of [lo, hi), which replaces numbers that round to hi; hi itself if lo = hi.
// Uniform f64 numbers are drawn in f32.
double most_of_uniform(double lo, double hi, DType dtype);

}  // namespace lockstep
