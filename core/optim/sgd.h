// SGD with momentum, as PyTorch computes it (dampening 0, no Nesterov).
#pragma once

#include "core/optim/optimizer.h"
#include "core/optim/schedule.h"

namespace lockstep {

struct SgdOptions {
  Schedule lr = 1e-2;
  double momentum = 0;
  double weight_decay = 0;  // of tensors of two or more dims; added to the gradient
  double clip = 0;          // largest global norm of the gradients; 0: no clipping
};

// g = scale g + wd p;  m = momentum m + g;  p -= lr m. Moment PATH.FQN.momentum; host scalar PATH.lr.
class Sgd : public Optimizer {
 public:
  // UserError when an option is out of range, the state has no parameters yet, or the path has an optimizer
  // already.
  explicit Sgd(Scope at, SgdOptions options = {}, Here line = Here::current());
  void update(const Gradients& gradients, Here at = Here::current()) override;
  std::map<std::string, double> scalars(int64_t step) const override;

 private:
  SgdOptions options_;
};

}  // namespace lockstep
