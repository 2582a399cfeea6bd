// AdamW: Adam with decoupled weight decay (Loshchilov and Hutter, 2019), as PyTorch computes it.
#pragma once

#include <array>

#include "core/optim/rule.h"
#include "core/optim/schedule.h"

namespace lockstep {

struct AdamWOptions {
  Schedule lr = 3e-4;
  std::array<double, 2> betas = {0.9, 0.95};
  double eps = 1e-8;
  double weight_decay = 0.1;               // of tensors of two or more dims
  double clip = 1.0;                       // largest global norm of the gradients; 0: no clipping
  DType moments = DType::f32;              // or bf16, rounded at random (core/optim/rounded_moments.h)
  std::vector<Parameter> parameters = {};  // empty: all trained parameters in no other group
};

// Update t, with g the gradient times the clipping factor:
//   p *= 1 - lr wd;  m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g g;
//   p -= (lr / (1 - b1^t)) m / (sqrt(v) / sqrt(1 - b2^t) + eps)
// Moments PATH.FQN.exp_avg and PATH.FQN.exp_avg_sq; host scalars PATH.lr, PATH.bias1 = 1 - b1^t and
// PATH.bias2 = 1 - b2^t, in double.
class AdamW : public RuleOptimizer {
 public:
  // `groups`: parameters with their own options, except the clip, which is that of `options`. UserError when
  // an option is out of range, and as RuleOptimizer.
  explicit AdamW(Scope at, AdamWOptions options = {}, std::vector<AdamWOptions> groups = {},
                 Here line = Here::current());
};

// The same rule as a group of another optimizer. UserError when an option is out of range.
RuleGroup adamw_group(const AdamWOptions& options, const OptionChecks& checks);

}  // namespace lockstep
