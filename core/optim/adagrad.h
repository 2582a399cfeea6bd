// Adagrad (Duchi, Hazan and Singer, 2011), as PyTorch computes it.
#pragma once

#include "core/optim/rule.h"
#include "core/optim/schedule.h"

namespace lockstep {

struct AdagradOptions {
  Schedule lr = 1e-2;
  double eps = 1e-10;
  double weight_decay = 0;                 // of tensors of two or more dims; added to the gradient
  double clip = 0;                         // largest global norm of the gradients; 0: no clipping
  std::vector<Parameter> parameters = {};  // empty: all trained parameters in no other group
};

// g = scale g + wd p;  s += g g;  p -= lr g / (sqrt(s) + eps). Moment PATH.FQN.sum; host scalar PATH.lr.
class Adagrad : public RuleOptimizer {
 public:
  // As Sgd.
  explicit Adagrad(Scope at, AdagradOptions options = {}, std::vector<AdagradOptions> groups = {},
                   Here line = Here::current());
};

// The rule group for these options, for optimizers that have another rule for some tensors.
RuleGroup adagrad_group(const AdagradOptions& options, const OptionChecks& checks);

}  // namespace lockstep
