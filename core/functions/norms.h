// Norms and probabilities, of floats. Statistics and sums are f32 (f64 for f64); the result is rounded once.
#pragma once

#include "core/ops/apply.h"

namespace lockstep {

// e^x / sum(e^x), after the row's largest element is subtracted: [..., n] -> same, n >= 1. A row of
// -infinity, and one with a NaN, gives NaN. Gradient: y (dy - sum(dy y)). As PyTorch.
inline Tensor softmax(Tensor x, Here at = Here::current()) { return apply1(ops::softmax, {x}, {}, at); }
// The same along another dim.
Tensor softmax(Tensor x, int dim, Here at = Here::current());
// softmax(-x) along `dim`. As PyTorch.
Tensor softmin(Tensor x, int dim = -1, Here at = Here::current());
// x - log(sum(e^x)) along `dim`. Gradient: dy - e^y sum(dy). As PyTorch.
Tensor log_softmax(Tensor x, int dim = -1, Here at = Here::current());
// x / max(norm(x), eps) along `dim` with the norm of order p. As PyTorch.
Tensor normalize(Tensor x, double p = 2, int dim = 1, double eps = 1e-12, Here at = Here::current());

// (x - mean) / sqrt(variance + eps) weight + bias: [..., n], [n], [n] -> [..., n]. The variance is biased.
// Weight and bias have x's dtype, or both that of the statistics. Gradients of x, weight and bias; those of
// the parameters are sums over all rows, rounded once to their dtype. As PyTorch; Ba et al., arXiv
// 1607.06450.
Tensor layer_norm(Tensor x, Tensor weight, Tensor bias, double eps = 1e-5, Here at = Here::current());
// x / sqrt(mean(x^2) + eps) weight: [..., n], [n] -> [..., n]; dtypes and gradients as in layer_norm. As
// PyTorch, whose eps is the dtype's own by default; Zhang and Sennrich, arXiv 1910.07467.
Tensor rms_norm(Tensor x, Tensor weight, double eps = 1e-5, Here at = Here::current());
// The same over each of `groups` groups of neighbouring channels and all places: x [batch, C, ...], weight
// and bias [C], or both empty. groups divides C. As PyTorch; Wu and He, arXiv 1803.08494.
Tensor group_norm(Tensor x, int64_t groups, Tensor weight = {}, Tensor bias = {}, double eps = 1e-5,
                  Here at = Here::current());
// The same over each channel. As PyTorch without running statistics; Ulyanov et al., arXiv 1607.08022.
Tensor instance_norm(Tensor x, Tensor weight = {}, Tensor bias = {}, double eps = 1e-5,
                     Here at = Here::current());

struct BatchNorm {
  Tensor y;         // x's type
  Tensor mean;      // [C] of f32 (f64 for f64), of this micro-batch
  Tensor variance;  // the same, biased: what y is divided by
};
// The same over batch and places of each channel, [batch, C, ...]: the statistics are those of the
// micro-batch, whatever the number of ranks, as in PyTorch's batch_norm(training=True) on each micro-batch.
// Ioffe and Szegedy, arXiv 1502.03167.
BatchNorm batch_norm(Tensor x, Tensor weight = {}, Tensor bias = {}, double eps = 1e-5,
                     Here at = Here::current());
// With statistics that are given, [C]: as in PyTorch's evaluation.
Tensor batch_norm_by(Tensor x, Tensor mean, Tensor variance, Tensor weight = {}, Tensor bias = {},
                     double eps = 1e-5, Here at = Here::current());

}  // namespace lockstep
