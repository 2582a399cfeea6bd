// Layers of norms over channels, [batch, C, ...]. FQNs are those of PyTorch. Norms over the last dim are in
// layers.h.
#pragma once

#include <string>

#include "core/nn/layers.h"

namespace lockstep {

struct BatchNormOptions {
  double eps = 1e-5;
  double momentum = 0.1;  // share of this step's statistics in the running ones
  Init weight_init = init::ones();
};

// weight [C] (ones), bias [C] (zeros), buffers running_mean [C] (zeros) and running_var [C] (ones). In
// training each micro-batch is normalised by its own statistics, as each rank's batch is in PyTorch's DDP.
// After the step the running statistics are (1 - momentum) old + momentum new. Here `new` is the mean of the
// means and unbiased variances of all micro-batches of the step on all ranks: the same bits on any number of
// ranks. (PyTorch updates once per micro-batch, from those of its rank.) A layer that is called several times
// in a step updates once per call. Under Evaluation the running statistics normalise and do not change. Ioffe
// and Szegedy, arXiv 1502.03167.
class BatchNorm2d {
 public:
  BatchNorm2d(Scope at, int64_t channels, const BatchNormOptions& options = {}, Here line = Here::current());
  // [batch, C, ...] -> same. UserError when a channel has only one element in training, which has no
  // variance.
  Tensor operator()(Tensor x, Here at = Here::current()) const;
  Parameter weight, bias, running_mean, running_var;

 private:
  std::string path_;
  BatchNormOptions options_;
};
// A channel may have any number of spatial dims.
using BatchNorm1d = BatchNorm2d;
using BatchNorm3d = BatchNorm2d;

// weight [C] (ones), bias [C] (zeros): group_norm(x, groups). UserError unless groups divide channels.
class GroupNorm {
 public:
  GroupNorm(Scope at, int64_t groups, int64_t channels, double eps = 1e-5, Here line = Here::current());
  Tensor operator()(Tensor x, Here at = Here::current()) const;  // [batch, C, ...] -> same
  Parameter weight, bias;

 private:
  std::string path_;
  int64_t groups_;
  double eps_;
};

// LayerNorm over the channels of images, separately for each pixel. weight [C] (ones), bias [C] (zeros).
class LayerNorm2d {
 public:
  LayerNorm2d(Scope at, int64_t channels, double eps = 1e-6, Here line = Here::current())
      : norm_(std::move(at), channels, eps, line) {}
  Tensor operator()(Tensor x, Here at = Here::current()) const;  // [batch, C, h, w] -> same

 private:
  LayerNorm norm_;
};

}  // namespace lockstep
