// Functions of one element: [...] -> [...].
#pragma once

#include "core/ops/apply.h"
#include "core/types/number.h"

namespace lockstep {

// |x| of numbers; the smallest signed integer stays itself. Gradient: dy sign(x), 0 at 0. As PyTorch.
inline Tensor abs(Tensor x, Here at = Here::current()) { return apply1(ops::abs, {x}, {}, at); }
// -1, 0 or 1 of numbers; NaN stays NaN. No gradient (PyTorch: 0).
inline Tensor sign(Tensor x, Here at = Here::current()) { return apply1(ops::sign, {x}, {}, at); }
// To a whole number of floats: down, up, to the nearest (ties to even), towards 0. No gradient (PyTorch: 0).
inline Tensor floor(Tensor x, Here at = Here::current()) { return apply1(ops::floor, {x}, {}, at); }
inline Tensor ceil(Tensor x, Here at = Here::current()) { return apply1(ops::ceil, {x}, {}, at); }
inline Tensor round(Tensor x, Here at = Here::current()) { return apply1(ops::round, {x}, {}, at); }
inline Tensor trunc(Tensor x, Here at = Here::current()) { return apply1(ops::trunc, {x}, {}, at); }
// x x of numbers, rounded once. Gradient: 2 dy x.
Tensor square(Tensor x, Here at = Here::current());
// 1 / x of floats. Gradient: -dy y^2.
inline Tensor reciprocal(Tensor x, Here at = Here::current()) { return apply1(ops::reciprocal, {x}, {}, at); }
// Square root of floats, correctly rounded in f32 and f64; NaN below 0. Gradient: dy / (2 y), infinite at 0.
inline Tensor sqrt(Tensor x, Here at = Here::current()) { return apply1(ops::sqrt, {x}, {}, at); }
// 1 / sqrt(x) of floats: the root is rounded, then the quotient. Gradient: -dy y / (2 x).
inline Tensor rsqrt(Tensor x, Here at = Here::current()) { return apply1(ops::rsqrt, {x}, {}, at); }

// e^x of floats. Gradient: dy y.
inline Tensor exp(Tensor x, Here at = Here::current()) { return apply1(ops::exp, {x}, {}, at); }
// e^x - 1 of floats, exact near 0. Gradient: dy (y + 1).
inline Tensor expm1(Tensor x, Here at = Here::current()) { return apply1(ops::expm1, {x}, {}, at); }
// 2^x of floats, by pow. Gradient: dy y log(2).
Tensor exp2(Tensor x, Here at = Here::current());
// Natural logarithm of floats: -infinity at 0, NaN below. Gradient: dy / x.
inline Tensor log(Tensor x, Here at = Here::current()) { return apply1(ops::log, {x}, {}, at); }
// log(1 + x) of floats, exact near 0: -infinity at -1, NaN below. Gradient: dy / (1 + x).
inline Tensor log1p(Tensor x, Here at = Here::current()) { return apply1(ops::log1p, {x}, {}, at); }
// Logarithms to the bases 2 and 10 of floats: the natural one times a constant. Gradient: that of log, times
// it.
Tensor log2(Tensor x, Here at = Here::current());
Tensor log10(Tensor x, Here at = Here::current());
// x^exponent. 0 gives ones, 1 gives x itself and 2 gives x * x, of numbers; any other exponent takes floats
// and is rounded to x's dtype (1/2, -1/2 and -1 are sqrt, rsqrt and reciprocal). NaN for x < 0 unless the
// exponent is whole. Gradient: dy exponent x^(exponent - 1), 0 for exponent 0. As PyTorch.
Tensor pow(Tensor x, Number exponent, Here at = Here::current());

// Sine, cosine and tangent of floats, x in radians. Gradients: dy cos(x), -dy sin(x), dy (1 + y^2).
inline Tensor sin(Tensor x, Here at = Here::current()) { return apply1(ops::sin, {x}, {}, at); }
inline Tensor cos(Tensor x, Here at = Here::current()) { return apply1(ops::cos, {x}, {}, at); }
Tensor tan(Tensor x, Here at = Here::current());
// Their inverses of floats; NaN for asin and acos outside [-1, 1]. Gradients: dy / sqrt(1 - x^2), minus that,
// dy / (1 + x^2).
Tensor asin(Tensor x, Here at = Here::current());
Tensor acos(Tensor x, Here at = Here::current());
inline Tensor atan(Tensor x, Here at = Here::current()) { return apply1(ops::atan, {x}, {}, at); }
// Hyperbolic sine, cosine and tangent of floats. Gradients: dy cosh(x), dy sinh(x), dy (1 - y^2).
Tensor sinh(Tensor x, Here at = Here::current());
Tensor cosh(Tensor x, Here at = Here::current());
inline Tensor tanh(Tensor x, Here at = Here::current()) { return apply1(ops::tanh, {x}, {}, at); }
// Their inverses of floats. asinh squares x, so |x| is at most 1e19 in f32 (beyond: NaN). Gradients:
// dy / sqrt(x^2 + 1), dy / sqrt(x^2 - 1), dy / (1 - x^2).
Tensor asinh(Tensor x, Here at = Here::current());
Tensor acosh(Tensor x, Here at = Here::current());
Tensor atanh(Tensor x, Here at = Here::current());
// Error function of floats. Gradient: dy 2 / sqrt(pi) e^(-x^2).
inline Tensor erf(Tensor x, Here at = Here::current()) { return apply1(ops::erf, {x}, {}, at); }
// Its inverse of floats: infinite at -1 and 1, NaN beyond. An approximation (Giles, 2010) and one step of
// Newton; within 1e-6 of y in f32. Gradient: dy sqrt(pi) / 2 e^(y^2).
Tensor erfinv(Tensor x, Here at = Here::current());
// 1 / (1 + e^-x) of floats, without overflow. Gradient: dy y (1 - y).
inline Tensor sigmoid(Tensor x, Here at = Here::current()) { return apply1(ops::sigmoid, {x}, {}, at); }

// x limited to [lo, hi], of numbers. NaN stays NaN. UserError unless lo <= hi, and for a bound that x's dtype
// cannot represent. Gradient: dy where lo <= x <= hi, bounds included, else 0. As PyTorch.
Tensor clamp(Tensor x, Number lo, Number hi, Here at = Here::current());
// Whether a float is NaN, infinite, neither: bool. No gradient.
Tensor isnan(Tensor x, Here at = Here::current());
Tensor isinf(Tensor x, Here at = Here::current());
Tensor isfinite(Tensor x, Here at = Here::current());
// x of floats with `nan` for NaN and the largest and smallest finite value of its dtype for the infinities.
// Gradient: dy where x is finite, else 0. As PyTorch.
Tensor nan_to_num(Tensor x, Number nan = 0, Here at = Here::current());

// x in another dtype, any to any; x itself if it has the dtype already. To a float: to the nearest, ties to
// even; to bf16 and f16 by way of f32. Float to integer: towards 0, beyond the range to its end, NaN to 0.
// Integer to integer wraps. To bool: x != 0, true for NaN. Gradient: dy converted back, only between floats.
Tensor convert(Tensor x, DType dtype, Here at = Here::current());
// The same bits as another dtype of the same size. UserError for another size, and when a gradient is needed.
// As PyTorch's view(dtype).
Tensor bitcast(Tensor x, DType dtype, Here at = Here::current());
// x itself, of any dtype, as a constant: no gradient flows through it. As PyTorch's detach.
inline Tensor stop_gradient(Tensor x, Here at = Here::current()) {
  return apply1(ops::stop_gradient, {x}, {}, at);
}

}  // namespace lockstep
