// Activations, [...] -> [...]. They take floats, compute in f32 (f64 for f64) and round once at the end,
// unless stated otherwise; so do their gradients.
#pragma once

#include "core/ops/apply.h"

namespace lockstep {

// max(x, 0), of numbers; NaN stays NaN. Gradient: dy where x > 0 (or NaN), else 0. As PyTorch.
Tensor relu(Tensor x, Here at = Here::current());
// x limited to [0, 6], to [lo, hi]. Gradient: dy strictly inside, 0 at the bounds. As PyTorch.
Tensor relu6(Tensor x, Here at = Here::current());
Tensor hardtanh(Tensor x, double lo = -1, double hi = 1, Here at = Here::current());
// x where x > 0, else slope x. Gradient: dy, dy slope. As PyTorch.
Tensor leaky_relu(Tensor x, double slope = 0.01, Here at = Here::current());
// The same with a slope that is learned: [1], or one per channel, [C] for x [batch, C, ...]. As PyTorch.
Tensor prelu(Tensor x, Tensor slope, Here at = Here::current());
// x where x > 0, else alpha (e^x - 1). Gradient there: dy alpha e^x. As PyTorch; Clevert et al., arXiv
// 1511.07289.
Tensor elu(Tensor x, double alpha = 1, Here at = Here::current());
// scale elu(x, alpha) with the constants of Klambauer et al., arXiv 1706.02515. As PyTorch.
Tensor selu(Tensor x, Here at = Here::current());
// x where x > 0, else alpha (e^(x / alpha) - 1). As PyTorch; Barron, arXiv 1704.07483.
Tensor celu(Tensor x, double alpha = 1, Here at = Here::current());
// 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))). As PyTorch's gelu(approximate="tanh"); Hendrycks and
// Gimpel, arXiv 1606.08415.
Tensor gelu(Tensor x, Here at = Here::current());
// 0.5 x (1 + erf(x / sqrt(2))). As PyTorch's gelu(); the same paper.
Tensor gelu_erf(Tensor x, Here at = Here::current());
// x sigmoid(x). As PyTorch; Elfwing et al., arXiv 1702.03118.
inline Tensor silu(Tensor x, Here at = Here::current()) { return apply1(ops::silu, {x}, {}, at); }
// x tanh(softplus(x)). As PyTorch; Misra, arXiv 1908.08681.
Tensor mish(Tensor x, Here at = Here::current());
// x relu6(x + 3) / 6, and relu6(x + 3) / 6. As PyTorch; Howard et al., arXiv 1905.02244.
Tensor hardswish(Tensor x, Here at = Here::current());
Tensor hardsigmoid(Tensor x, Here at = Here::current());
// log(1 + e^(beta x)) / beta; x itself where beta x > threshold. Gradient: dy sigmoid(beta x). As PyTorch.
Tensor softplus(Tensor x, double beta = 1, double threshold = 20, Here at = Here::current());
// log(sigmoid(x)) without overflow. Gradient: dy sigmoid(-x). As PyTorch.
Tensor logsigmoid(Tensor x, Here at = Here::current());
// x / (1 + |x|). As PyTorch.
Tensor softsign(Tensor x, Here at = Here::current());
// x - tanh(x). As PyTorch.
Tensor tanhshrink(Tensor x, Here at = Here::current());
// x where |x| > lambda, else 0; the second also moves it towards 0 by lambda. As PyTorch.
Tensor hardshrink(Tensor x, double lambda = 0.5, Here at = Here::current());
Tensor softshrink(Tensor x, double lambda = 0.5, Here at = Here::current());
// a sigmoid(b) for the halves a and b of x along `dim`, whose size is even. As PyTorch; Dauphin et al., arXiv
// 1612.08083.
Tensor glu(Tensor x, int dim = -1, Here at = Here::current());

}  // namespace lockstep
