// SGD with momentum, as PyTorch computes it (dampening 0).
#pragma once

#include "core/optim/rule.h"
#include "core/optim/schedule.h"

namespace lockstep {

struct SgdOptions {
  Schedule lr = 1e-2;
  double momentum = 0;
  double weight_decay = 0;                 // of tensors of two or more dims; added to the gradient
  double clip = 0;                         // largest global norm of the gradients; 0: no clipping
  bool nesterov = false;                   // needs momentum
  std::vector<Parameter> parameters = {};  // empty: all trained parameters in no other group
};

// g = scale g + wd p;  m = momentum m + g;  p -= lr m, with Nesterov p -= lr (g + momentum m). Moment
// PATH.FQN.momentum; host scalar PATH.lr.
class Sgd : public RuleOptimizer {
 public:
  // `groups`: parameters with their own options, except the clip, which is that of `options`. UserError when
  // an option is out of range, and as RuleOptimizer.
  explicit Sgd(Scope at, SgdOptions options = {}, std::vector<SgdOptions> groups = {},
               Here line = Here::current());
};

}  // namespace lockstep
