// Random numbers by Philox4x32-10 (Salmon et al., 2011) from (seed, stream, step, global index of the
// element). Dim 0 of the result counts samples of the global batch, or rows of them with an equal number for
// each. So the numbers of a sample do not depend on its rank or micro-batch. The stream is a hash of the
// layer and of the call's number in the graph. Every step draws new numbers, in evaluation, too. Only dropout
// has a gradient.
#pragma once

#include "core/ops/apply.h"

namespace lockstep {

// Each element of floats is 0 with probability p, else x / (1 - p): [samples, ...] -> same, 0 <= p <= 1. The
// element is kept where a uniform number of f32 is p or more. p = 0 is x itself. Gradient: the same mask and
// scale. It drops in evaluation, too; the layer Dropout (core/nn/layers.h) does not.
Tensor dropout(Tensor x, double p, Here at = Here::current());
// The same for whole channels of [samples, C, ...], or for whole samples of [samples, ...] (stochastic depth:
// Huang et al., arXiv 1603.09382). As PyTorch's dropout2d, and torchvision's stochastic_depth by row.
Tensor dropout_channels(Tensor x, double p, Here at = Here::current());
Tensor dropout_samples(Tensor x, double p, Here at = Here::current());

// Uniform in [lo, hi), of f32 with 24 random bits: [samples, ...]. Where rounding would reach hi, it is the
// largest number of the dtype below. UserError unless lo <= hi are finite, and when no number is between
// them.
Tensor uniform(Tensor beside, Shape shape, double lo = 0, double hi = 1, DType dtype = DType::f32,
               Here at = Here::current());
// Standard normal, by Box and Muller from two uniform numbers in f32: at most 5.8 from 0.
Tensor randn(Tensor beside, Shape shape, DType dtype = DType::f32, Here at = Here::current());
// Normal with this mean and deviation, limited to [lo, hi] by the inverse of its distribution. If both bounds
// are on one side of the mean, the inverse of the tail probability is used, which is exact at any distance.
// UserError unless lo < hi and the deviation is positive, and when no f32 number is between them.
Tensor truncated_normal(Tensor beside, Shape shape, double mean = 0, double deviation = 1, double lo = -2,
                        double hi = 2, DType dtype = DType::f32, Here at = Here::current());
// 1 with the probability p, else 0: floats in p's shape and dtype, or in a shape. As PyTorch. Elements of p
// are not known while a step is traced: below 0, and NaN, they give 0, above 1 they give 1.
Tensor bernoulli(Tensor p, Here at = Here::current());
Tensor bernoulli(Tensor beside, Shape shape, double p, DType dtype = DType::f32, Here at = Here::current());
// Integers in [lo, hi), hi - lo <= 2^32, uniform up to 2^-32: i32 or i64, which must represent both ends.
Tensor randint(Tensor beside, Shape shape, int64_t lo, int64_t hi, DType dtype = DType::i32,
               Here at = Here::current());
// 32 random bits: u32.
Tensor random_bits(Tensor beside, Shape shape, Here at = Here::current());
// x where x >= 0, else a slope times x that is uniform in [lo, hi) for each element; in evaluation, too.
// [samples, ...] of floats. Gradient: dy, dy slope. As PyTorch's training; Xu et al., arXiv 1505.00853.
Tensor rrelu(Tensor x, double lo = 1.0 / 8, double hi = 1.0 / 3, Here at = Here::current());
// Draws `count` indices along the last dim with probabilities proportional to p >= 0, which need not add up
// to 1: floats [samples, ..., n] -> i32 [samples, ..., count]. An index is drawn once, or, with `again`, with
// replacement. If fewer than `count` elements are not 0, the other indices follow in order; a row of zeros
// gives index 0 each time. Elements of p are not known while a step is traced: a negative number and NaN
// count as 0, infinity comes first. UserError for such constants, and for a row of constant zeros. No
// gradient. As PyTorch, which refuses all such rows.
Tensor multinomial(Tensor p, int64_t count, bool again = false, Here at = Here::current());
// softmax((x + noise) / temperature) along `dim` with noise -log(-log(u)); with `hard` the largest one is 1
// and the rest 0, and the gradient is that of the soft ones. [samples, ...] of floats. As PyTorch; Jang et
// al., arXiv 1611.01144.
Tensor gumbel_softmax(Tensor x, double temperature = 1, bool hard = false, int dim = -1,
                      Here at = Here::current());

}  // namespace lockstep
