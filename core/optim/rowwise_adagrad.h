// Row-wise Adagrad (as in DLRM's reference code and TorchRec): one number per row of a table in place of a
// moment of its shape; Adagrad for what is no sparse table.
#pragma once

#include "core/optim/adagrad.h"

namespace lockstep {

// Of each row that the step's ids name, with g its summed and clipped gradient:
//   s += mean(g g) over the row;  p -= lr g / (sqrt(s) + eps)
// Moment PATH.FQN.sum of shape [rows, 1]; host scalar PATH.lr. What is no sparse table is updated by Adagrad
// with the same options, whose weight decay it alone has.
class RowwiseAdagrad : public RuleOptimizer {
 public:
  // UserError when an option is out of range, where there is no sparse table; and as RuleOptimizer.
  explicit RowwiseAdagrad(Scope at, AdagradOptions options = {}, Here line = Here::current());
};

}  // namespace lockstep
