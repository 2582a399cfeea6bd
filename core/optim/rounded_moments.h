// Moments that are kept in bf16: rounded up or down at random, so that their mean over steps is exact.
#pragma once

#include <cstdint>

#include "core/ops/functions.h"

namespace lockstep {

// x, f32, in bf16: the next number up or down, up with the chance (x - down) / (up - down), so that small
// changes add up, which rounding to nearest would lose (stochastic rounding; Gupta et al., arXiv 1502.02551).
// The draw is a hash of the bits of x, of `beside` (f32, of one shape with x) and of `salt` (f32 []), and of
// nothing else: it is the same wherever an element lies. Beyond the largest bf16 it is to nearest.
Tensor round_at_random(Tensor x, Tensor beside, Tensor salt, Here at = Here::current());

// The salt of a step as a number that f32 holds, from 1 to 2.
double rounding_salt(int64_t step);

}  // namespace lockstep
