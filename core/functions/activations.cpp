// Activations as compositions. A branch that is not taken may overflow, and 0 times an infinite slope is NaN,
// so its argument is clamped first.
#include "core/functions/activations.h"

#include "core/functions/creation.h"
#include "core/functions/operators.h"
#include "core/functions/pointwise.h"
#include "core/functions/shape.h"
#include "core/ops/checks.h"

namespace lockstep {

using namespace functions;

namespace {
constexpr double kFar = -1e30;
constexpr double kSeluAlpha = 1.6732632423543772848, kSeluScale = 1.0507009873554804934;

// x strictly inside the bounds, a constant outside.
Tensor inside(Tensor x, double lo, double hi) {
  return where(x <= lo, full_like(x, lo), where(x >= hi, full_like(x, hi), x));
}
// e^x - 1 for x <= 0.
Tensor expm1_below(Tensor x) { return expm1(clamp(x, kFar, 0)); }
Tensor softplus_of(Tensor x, double beta, double threshold) {
  Tensor t = beta == 1 ? x : x * beta;
  Tensor soft = log1p(exp(clamp(t, kFar, threshold)));
  return where(t > threshold, x, beta == 1 ? soft : soft * (1 / beta));
}
}  // namespace

Tensor relu(Tensor x, Here at) {
  need("relu", {x}, at);
  Tensor none = full_like(x, 0, at);
  return where(less_equal(x, none, at), none, x, at);
}
Tensor hardtanh(Tensor x, double lo, double hi, Here at) {
  need_floats("hardtanh", {x}, at);
  if (!(lo <= hi))
    refuse("hardtanh", {x}, at, str("bounds are ", lo, " and ", hi, "; the lower comes first"));
  InFunction line(x, at);
  return inside(x, lo, hi);
}
Tensor relu6(Tensor x, Here at) { return hardtanh(x, 0, 6, at); }
Tensor leaky_relu(Tensor x, double slope, Here at) {
  return rounded_once("leaky_relu", x, at, [&](Tensor v) { return where(v > 0, v, v * slope); });
}
Tensor prelu(Tensor x, Tensor slope, Here at) {
  need_floats("prelu", {x, slope}, at);
  const int64_t channels = x.ndim() > 1 ? x.size(1) : 1;
  if (slope.ndim() != 1 || (slope.size(0) != 1 && slope.size(0) != channels))
    refuse("prelu", {x}, at,
           str("slope is ", slope.text(), ", needs [1] or [", channels, "], the channels of ", x.text()));
  InFunction line(x, at);
  Tensor v = rules::wide(x), s = rules::wide(slope);
  s = slope.size(0) == 1 ? broadcast_to(reshape(s, {}), v.shape()) : broadcast_dims(s, v.shape(), {1});
  return convert(where(v > 0, v, v * s), x.dtype());
}
Tensor elu(Tensor x, double alpha, Here at) {
  return rounded_once("elu", x, at, [&](Tensor v) { return where(v > 0, v, expm1_below(v) * alpha); });
}
Tensor selu(Tensor x, Here at) {
  return rounded_once("selu", x, at, [&](Tensor v) {
    return where(v > 0, v * kSeluScale, expm1_below(v) * (kSeluAlpha * kSeluScale));
  });
}
Tensor celu(Tensor x, double alpha, Here at) {
  need_floats("celu", {x}, at);
  if (!(alpha > 0)) refuse("celu", {x}, at, str("alpha is ", alpha, ", needs a positive number"));
  return rounded_once("celu", x, at,
                      [&](Tensor v) { return where(v > 0, v, expm1_below(v * (1 / alpha)) * alpha); });
}
Tensor gelu(Tensor x, Here at) { return apply1(ops::gelu, {x}, {{"form", "tanh"}}, at); }
Tensor gelu_erf(Tensor x, Here at) { return apply1(ops::gelu, {x}, {{"form", "erf"}}, at); }
Tensor mish(Tensor x, Here at) {
  return rounded_once("mish", x, at, [](Tensor v) { return v * tanh(softplus_of(v, 1, 40)); });
}
Tensor hardswish(Tensor x, Here at) {
  return rounded_once("hardswish", x, at, [](Tensor v) { return v * clamp(v + 3.0, 0, 6) * (1.0 / 6); });
}
Tensor hardsigmoid(Tensor x, Here at) {
  return rounded_once("hardsigmoid", x, at, [](Tensor v) { return inside(v + 3.0, 0, 6) * (1.0 / 6); });
}
Tensor softplus(Tensor x, double beta, double threshold, Here at) {
  need_floats("softplus", {x}, at);
  if (!(beta > 0)) refuse("softplus", {x}, at, str("beta is ", beta, ", needs a positive number"));
  return rounded_once("softplus", x, at, [&](Tensor v) { return softplus_of(v, beta, threshold); });
}
Tensor logsigmoid(Tensor x, Here at) {
  return rounded_once("logsigmoid", x, at, [](Tensor v) { return -softplus_of(-v, 1, 40); });
}
Tensor softsign(Tensor x, Here at) {
  return rounded_once("softsign", x, at, [](Tensor v) { return v / (1.0 + abs(v)); });
}
Tensor tanhshrink(Tensor x, Here at) {
  return rounded_once("tanhshrink", x, at, [](Tensor v) { return v - tanh(v); });
}
Tensor hardshrink(Tensor x, double lambda, Here at) {
  return rounded_once("hardshrink", x, at,
                      [&](Tensor v) { return where(abs(v) <= lambda, full_like(v, 0), v); });
}
Tensor softshrink(Tensor x, double lambda, Here at) {
  return rounded_once("softshrink", x, at, [&](Tensor v) {
    return where(abs(v) <= lambda, full_like(v, 0), where(v > lambda, v - lambda, v + lambda));
  });
}
Tensor glu(Tensor x, int dim, Here at) {
  need_floats("glu", {x}, at);
  const int d = static_cast<int>(dim_of("glu", x, dim, at));
  if (x.size(d) % 2 != 0)
    refuse("glu", {x}, at, str("dim ", d, " of ", x.text(), " is odd, and is cut in two halves"));
  InFunction line(x, at);
  const int64_t half = x.size(d) / 2;
  Tensor a = slice(x, d, 0, half), b = slice(x, d, half, 2 * half);
  return convert(rules::wide(a) * sigmoid(rules::wide(b)), x.dtype());
}

}  // namespace lockstep
