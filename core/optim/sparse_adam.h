// SparseAdam: Adam on the rows that a step reads, as torch.optim.SparseAdam; AdamW for everything that is not
// a sparse table.
#pragma once

#include "core/optim/adamw.h"

namespace lockstep {

struct SparseAdamOptions {
  Schedule lr = 1e-3;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;
  double clip = 0;                         // largest global norm of all gradients; 0: no clipping
  std::vector<Parameter> parameters = {};  // sparse tables; empty: all of the state
};

// For each row that the step's ids name, with its summed and clipped gradient g and the number t of the
// update:
//   m += (1 - beta1) (g - m);  v += (1 - beta2) (g g - v);
//   p -= lr sqrt(1 - beta2^t) / (1 - beta1^t) m / (sqrt(v) + eps)
// Other rows, and their moments, do not change: a rare row moves by moments as old as its last update.
// Moments PATH.FQN.exp_avg and exp_avg_sq; host scalars PATH.lr and PATH.rate; AdamW's are those of a second
// group.
class SparseAdam : public RuleOptimizer {
 public:
  // AdamW with the options `others` updates all other parameters; its clip is ignored. UserError when an
  // option is out of range, when a parameter is not a sparse table or there is none, and as RuleOptimizer.
  explicit SparseAdam(Scope at, SparseAdamOptions options = {}, AdamWOptions others = {},
                      Here line = Here::current());
};

}  // namespace lockstep
