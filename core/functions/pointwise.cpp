// Functions of one element that need more than one row, or a row with defaults.
#include "core/functions/pointwise.h"

#include <cmath>
#include <limits>

#include "core/functions/creation.h"
#include "core/functions/operators.h"
#include "core/ops/checks.h"

namespace lockstep {

using namespace functions;

namespace {
constexpr double kLog2 = 0.69314718055994530942, kLog10 = 2.30258509299404568402;

// The largest finite value.
double largest(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return 65504;
    case DType::bf16:
      return 0x1.fep127;
    case DType::f32:
      return std::numeric_limits<float>::max();
    default:
      return std::numeric_limits<double>::max();
  }
}
}  // namespace

Tensor square(Tensor x, Here at) { return apply1(ops::mul, {x, x}, {}, at); }
Tensor exp2(Tensor x, Here at) {
  need_floats("exp2", {x}, at);
  return apply1(ops::pow, {full_like(x, 2, at), x}, {}, at);
}
Tensor log2(Tensor x, Here at) {
  return rounded_once("log2", x, at, [](Tensor v) { return log(v) * (1 / kLog2); });
}
Tensor log10(Tensor x, Here at) {
  return rounded_once("log10", x, at, [](Tensor v) { return log(v) * (1 / kLog10); });
}
Tensor pow(Tensor x, Number number, Here at) {
  need("pow", {x}, at);
  const double exponent = number.real();
  if (exponent == 0) return full_like(x, 1, at);
  if (exponent == 1) return x;
  if (exponent == 2) return square(x, at);
  if (exponent == 0.5) return sqrt(x, at);
  if (exponent == -0.5) return rsqrt(x, at);
  if (exponent == -1) return reciprocal(x, at);
  (void)held("pow", x, number, at);
  return apply1(ops::pow, {x, full_like(x, number, at)}, {}, at);
}

Tensor tan(Tensor x, Here at) {
  return rounded_once("tan", x, at, [](Tensor v) { return sin(v) / cos(v); });
}
Tensor asin(Tensor x, Here at) {  // the tangent of half the angle avoids cancellation
  return rounded_once("asin", x, at,
                      [](Tensor v) { return 2.0 * atan(v / (1.0 + sqrt((1.0 - v) * (1.0 + v)))); });
}
Tensor acos(Tensor x, Here at) {
  return rounded_once("acos", x, at, [](Tensor v) { return 2.0 * atan(sqrt((1.0 - v) / (1.0 + v))); });
}
namespace {
// Whether e^|x| is near the largest number, so that e^-|x| is negligible.
Tensor is_far(Tensor x) {
  const Tensor a = abs(x);
  return a > (x.dtype() == DType::f64 ? 708 : 87) && a < std::numeric_limits<double>::infinity();
}
// e^|x| / 2 for a far x, from two factors, since e^|x| may be infinite while its half is finite. The
// gradients of the factors may overflow, too, so a last factor of 1 carries the gradient of the whole
// product.
Tensor half_exp(Tensor x, Tensor far) {
  const Tensor a = where(far, abs(x), full_like(x, 0)), root = stop_gradient(exp(0.5 * a));
  return 0.5 * root * root * exp(a - stop_gradient(a));
}
// From this x on x^2 + 1 and x^2 - 1 round to x^2, which may be infinite for a finite x.
constexpr double kSquareAlone = 0x1p28;
// log(2 x) for a large x.
Tensor log_of_double(Tensor x, Tensor large) { return log(where(large, x, full_like(x, 1))) + kLog2; }
}  // namespace

Tensor sinh(Tensor x, Here at) {
  return rounded_once("sinh", x, at, [](Tensor v) {
    Tensor far = is_far(v), near = where(far, full_like(v, 0), v), large = half_exp(v, far);
    return where(far, where(v < 0, -large, large), 0.5 * (expm1(near) - expm1(-near)));
  });
}
Tensor cosh(Tensor x, Here at) {
  return rounded_once("cosh", x, at, [](Tensor v) {
    Tensor far = is_far(v), near = where(far, full_like(v, 0), v);
    return where(far, half_exp(v, far), 0.5 * (exp(near) + exp(-near)));
  });
}
Tensor asinh(Tensor x, Here at) {
  return rounded_once("asinh", x, at, [](Tensor v) {
    Tensor one = full_like(v, 1), side = where(v < 0, -one, one), a = v * side, large = a > kSquareAlone;
    Tensor near = where(large, one, a), s = near * near;
    return side * where(large, log_of_double(a, large), log1p(near + s / (1.0 + sqrt(s + 1.0))));
  });
}
Tensor acosh(Tensor x, Here at) {
  return rounded_once("acosh", x, at, [](Tensor v) {
    Tensor large = v > kSquareAlone, t = where(large, full_like(v, 2), v) - 1.0;
    return where(large, log_of_double(v, large), log1p(t + sqrt(t * (t + 2.0))));
  });
}
Tensor atanh(Tensor x, Here at) {
  return rounded_once("atanh", x, at, [](Tensor v) { return 0.5 * (log1p(v) - log1p(-v)); });
}
Tensor erfinv(Tensor x, Here at) {
  return rounded_once("erfinv", x, at, [](Tensor v) {
    auto series = [](Tensor w, std::initializer_list<double> coefficients) {
      Tensor sum;
      for (double c : coefficients) sum = sum.defined() ? sum * w + c : full_like(w, c);
      return sum;
    };
    Tensor t = stop_gradient(v), w = -log((1.0 - t) * (1.0 + t));
    Tensor near = series(w - 2.5, {2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06,
                                   0.00021858087, -0.00125372503, -0.00417768164, 0.246640727, 1.50140941});
    Tensor far = series(sqrt(w) - 3.0, {-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844,
                                        0.00573950773, -0.0076224613, 0.00943887047, 1.00167406, 2.83297682});
    // The Taylor series of erfinv around a guess that is constant with respect to v, so that the first three
    // derivatives are those of erfinv.
    Tensor y = where(w < 5, near, far) * t;
    Tensor step = (v - erf(y)) * (exp(y * y) * 0.88622692545275801365);
    Tensor curved = step * step * (y + step * ((4.0 * (y * y) + 1.0) * (1.0 / 3)));
    return where(abs(v) == 1, t * std::numeric_limits<double>::infinity(), y + (step + curved));
  });
}

Tensor clamp(Tensor x, Number lo, Number hi, Here at) {
  return apply1(ops::clamp, {x}, {{"lo", held("clamp", x, lo, at)}, {"hi", held("clamp", x, hi, at)}}, at);
}
Tensor isnan(Tensor x, Here at) {
  need_floats("isnan", {x}, at);
  return not_equal(x, x, at);
}
Tensor isinf(Tensor x, Here at) {
  need_floats("isinf", {x}, at);
  return equal(abs(x, at), full_like(x, std::numeric_limits<double>::infinity(), at), at);
}
Tensor isfinite(Tensor x, Here at) {
  need_floats("isfinite", {x}, at);
  return less(abs(x, at), full_like(x, std::numeric_limits<double>::infinity(), at), at);
}
Tensor nan_to_num(Tensor x, Number nan, Here at) {
  need_floats("nan_to_num", {x}, at);
  InFunction line(x, at);
  Tensor most = full_like(x, largest(x.dtype()));
  Tensor finite = where(isinf(x), where(x < 0, -most, most), x);
  return where(isnan(x), full_like(x, nan), finite);
}
Tensor convert(Tensor x, DType dtype, Here at) {
  need("convert", {x}, at);
  return x.dtype() == dtype ? x : apply1(ops::convert, {x}, {{"dtype", dtype}}, at);
}
Tensor bitcast(Tensor x, DType dtype, Here at) { return apply1(ops::bitcast, {x}, {{"dtype", dtype}}, at); }

}  // namespace lockstep
