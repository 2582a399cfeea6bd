// RMSprop (Hinton, 2012), as PyTorch computes it, not centered.
#pragma once

#include "core/optim/rule.h"
#include "core/optim/schedule.h"

namespace lockstep {

struct RmspropOptions {
  Schedule lr = 1e-2;
  double alpha = 0.99;  // decay of the running mean of squares
  double eps = 1e-8;
  double momentum = 0;
  double weight_decay = 0;                 // of tensors of two or more dims; added to the gradient
  double clip = 0;                         // largest global norm of the gradients; 0: no clipping
  std::vector<Parameter> parameters = {};  // empty: all trained parameters in no other group
};

// g = scale g + wd p;  v = alpha v + (1 - alpha) g g;  m = momentum m + g / (sqrt(v) + eps);  p -= lr m.
// Moments PATH.FQN.square_avg and PATH.FQN.momentum; host scalar PATH.lr.
class Rmsprop : public RuleOptimizer {
 public:
  // As Sgd.
  explicit Rmsprop(Scope at, RmspropOptions options = {}, std::vector<RmspropOptions> groups = {},
                   Here line = Here::current());
};

}  // namespace lockstep
