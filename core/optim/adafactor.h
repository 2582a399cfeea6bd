// Adafactor (Shazeer and Stern, arXiv 1804.04235): the second moments of a matrix are factored into moments
// of its rows and columns. As torch.optim.Adafactor of PyTorch.
#pragma once

#include "core/optim/rule.h"
#include "core/optim/schedule.h"

namespace lockstep {

struct AdafactorOptions {
  Schedule lr = 1e-2;                      // the largest relative step
  double beta2_decay = -0.8;               // at most 0
  double eps1 = 0x1p-23;                   // of the second moments; PyTorch's None
  double eps2 = 1e-3;                      // the smallest scale of a parameter
  double d = 1;                            // the largest root mean square of an update, at least 1
  double weight_decay = 0;                 // of tensors of two or more dims
  double clip = 0;                         // largest global norm of the gradients; 0: no clipping
  std::vector<Parameter> parameters = {};  // empty: all trained parameters in no other group
};

// Update t, with g the clipped gradient, rms(x) = |x| / sqrt(elements of x), w = t^beta2_decay:
//   alpha = max(eps2, rms(p)) min(lr, 1 / sqrt(t))
//   two or more dims: row += w (mean of g g over the last dim - row), col likewise over the one before it,
//     v = row col / max(mean of row over that dim, eps1);  others: v += w (g g - v)
//   u = g / sqrt(max(v, eps1^2));  p = (1 - lr wd) p - alpha u / max(1, rms(u) / d)
// Moments PATH.FQN.row_var [..., a, 1] and PATH.FQN.col_var [..., 1, b], or PATH.FQN.variance; host scalars
// PATH.lr, PATH.most = 1 / sqrt(t), PATH.fresh = w. g, and p if it is split, are gathered over the data dims,
// and every rank computes sums and u.
class Adafactor : public RuleOptimizer {
 public:
  // As AdamW. If tp splits a parameter, ranks exchange only its sums, not the parameter.
  explicit Adafactor(Scope at, AdafactorOptions options = {}, std::vector<AdafactorOptions> groups = {},
                     Here line = Here::current());
};

}  // namespace lockstep
