// Moments in bf16 with stochastic rounding, so that their mean over steps is exact.
#pragma once

#include <cstdint>

#include "core/functions/functions.h"

namespace lockstep {

// Rounds x from f32 to the next bf16 number up or down, up with the probability (x - down) / (up - down). So
// small changes add up, which rounding to nearest would lose (stochastic rounding; Gupta et al., arXiv
// 1502.02551). The random number is a hash of only the bits of x, of `beside` (f32, shaped like x) and of
// `salt` (f32 []), so it does not depend on the placement of the element. Beyond the largest bf16 it rounds
// to nearest.
Tensor round_at_random(Tensor x, Tensor beside, Tensor salt, Here at = Here::current());

// The salt of a step, a number from 1 to 2 that f32 represents.
double rounding_salt(int64_t step);

}  // namespace lockstep
