// Clipping by the global norm.
#pragma once

#include "core/optim/gradients.h"

namespace lockstep {

// sqrt(sum of the squares of all gradients), f32 []. UserError when there are no gradients.
Tensor global_norm(const Gradients& gradients, Here at = Here::current());
// The factor that brings gradients of this norm to at most `max`: min(1, max / (norm + 1e-6)), f32 [], as in
// PyTorch's clip_grad_norm_. UserError unless max > 0.
Tensor clip_scale(Tensor norm, double max, Here at = Here::current());

}  // namespace lockstep
