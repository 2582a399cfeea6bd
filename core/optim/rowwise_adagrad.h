// Row-wise Adagrad (as in DLRM's reference code and TorchRec): one moment per row of a table; Adagrad for
// everything that is not a sparse table.
#pragma once

#include "core/optim/adagrad.h"

namespace lockstep {

// For each row that the step's ids name, with its summed and clipped gradient g:
//   s += mean(g g) over the row;  p -= lr g / (sqrt(s) + eps)
// Moment PATH.FQN.sum of shape [rows, 1]; host scalar PATH.lr. Adagrad with the same options updates
// everything else; only it applies the weight decay.
class RowwiseAdagrad : public RuleOptimizer {
 public:
  // UserError when an option is out of range or there is no sparse table, and as RuleOptimizer.
  explicit RowwiseAdagrad(Scope at, AdagradOptions options = {}, Here line = Here::current());
};

}  // namespace lockstep
