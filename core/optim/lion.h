// Lion (Chen et al., arXiv 2302.06675): the sign of an interpolated momentum.
#pragma once

#include <array>

#include "core/optim/rule.h"
#include "core/optim/schedule.h"

namespace lockstep {

struct LionOptions {
  Schedule lr = 1e-4;
  std::array<double, 2> betas = {0.9, 0.99};
  double weight_decay = 0.1;               // of tensors of two or more dims
  double clip = 1.0;                       // largest global norm of the gradients; 0: no clipping
  DType moments = DType::f32;              // or bf16, rounded at random (core/optim/rounded_moments.h)
  std::vector<Parameter> parameters = {};  // empty: all trained parameters in no other group
};

// With g the clipped gradient: p = (1 - lr wd) p - lr sign(b1 m + (1 - b1) g);  m = b2 m + (1 - b2) g.
// Moment PATH.FQN.exp_avg; host scalar PATH.lr.
class Lion : public RuleOptimizer {
 public:
  // `groups`: parameters with their own options, except the clip, which is that of `options`. UserError when
  // an option is out of range, and as RuleOptimizer.
  explicit Lion(Scope at, LionOptions options = {}, std::vector<LionOptions> groups = {},
                Here line = Here::current());
};

}  // namespace lockstep
