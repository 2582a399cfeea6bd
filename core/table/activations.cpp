// Activation rows: gelu (tanh and erf forms), silu and their gradients, which compute in f32 (f64 for f64)
// and round once; and the identity that stops gradients.
#include "core/base/error.h"
#include "core/functions/functions.h"
#include "core/ops/rules.h"
#include "core/table/composites.h"

namespace lockstep {

namespace {
using namespace rules;
constexpr double kSqrt2OverPi = 0.79788456080286535588, kCubic = 0.044715, kSqrtHalf = 0.70710678118654752440,
                 kInvSqrt2Pi = 0.39894228040143267794;

Types infer_activation(const InferContext& c) {
  expect_count(c, 1);
  expect_float(c, 0);
  return {c.in[0]};
}
Types infer_activation_grad(const InferContext& c) {  // dy, x -> dx
  expect_count(c, 2);
  expect_float(c, 0);
  expect_like(c, 0, 1);
  return {c.in[1]};
}
void expect_form(const InferContext& c) {
  if (const auto& form = c.attrs.word("form"); form != "tanh" && form != "erf")
    c.fail(str("form is \"", form, "\"; known: \"tanh\", \"erf\""));
}
Types infer_gelu(const InferContext& c) {
  expect_form(c);
  return infer_activation(c);
}
Types infer_gelu_grad(const InferContext& c) {
  expect_form(c);
  return infer_activation_grad(c);
}

// a x^2 + b
Tensor parabola(Tensor squared, double a, double b) {
  Tensor second = full_like(squared, a), first = full_like(squared, b);
  return fma(squared, second, first);
}
// (1 + tanh(u)) / 2 is sigmoid(2 u), here of 2 u = x (kGate kCubic x^2 + kGate).
constexpr double kGate = 2 * kSqrt2OverPi;
Tensor tanh_gate(Tensor x, Tensor squared) { return sigmoid(x * parabola(squared, kGate * kCubic, kGate)); }

std::vector<Tensor> gelu_expand(const ExpandContext& c) {
  Tensor x = wide(c.in[0]);
  Tensor gate = c.attrs.word("form") == "tanh" ? tanh_gate(x, x * x) : (erf(x * kSqrtHalf) + 1.0) * 0.5;
  return {convert(x * gate, c.in[0].dtype())};
}
std::vector<Tensor> gelu_grad_expand(const ExpandContext& c) {
  Tensor dy = wide(c.in[0]), x = wide(c.in[1]), slope;
  if (c.attrs.word("form") == "tanh") {  // s + x s (1 - s) d(2 u)/dx
    Tensor squared = x * x, s = tanh_gate(x, squared);
    Tensor along = x * parabola(squared, 3 * kGate * kCubic, kGate), one = full_like(x, 1);
    Tensor rest = 1.0 - s;
    slope = s * fma(rest, along, one);
  } else {
    slope = (erf(x * kSqrtHalf) + 1.0) * 0.5 + x * (exp(x * x * -0.5) * kInvSqrt2Pi);
  }
  return {convert(dy * slope, c.in[1].dtype())};
}
std::vector<Tensor> silu_expand(const ExpandContext& c) {
  Tensor x = wide(c.in[0]);
  return {convert(x * sigmoid(x), c.in[0].dtype())};
}
std::vector<Tensor> silu_grad_expand(const ExpandContext& c) {
  Tensor dy = wide(c.in[0]), x = wide(c.in[1]), s = sigmoid(x);
  return {convert(dy * (s * (x * (1.0 - s) + 1.0)), c.in[1].dtype())};
}
std::vector<Tensor> gelu_vjp(const VjpContext& c) {
  return apply(ops::gelu_grad, {c.grad[0], c.in[0]}, c.attrs);
}
std::vector<Tensor> silu_vjp(const VjpContext& c) { return apply(ops::silu_grad, {c.grad[0], c.in[0]}); }

std::vector<Sample> samples(size_t count, bool forms) {
  std::vector<Sample> out;
  for (const char* form : {"tanh", "erf"}) {
    Attrs attrs;
    if (forms) attrs.set("form", form);
    out.push_back(floats(Types(count, f32({3, 5})), attrs, -4, 4));
    out.push_back(floats(Types(count, f32({2, 1, 17})), attrs, -9, 9));
    if (!forms) break;
  }
  return out;
}
}  // namespace

std::vector<Op> activation_rows() {
  constexpr auto kind = OpKind::composite;
  return {
      {.id = ops::gelu,
       .kind = kind,
       .attrs = {{"form", AttrType::word}},
       .infer = infer_gelu,
       .split = same_dims,
       .vjp = gelu_vjp,
       .expand = gelu_expand,
       .samples = samples(1, true)},
      {.id = ops::gelu_grad,
       .kind = kind,
       .attrs = {{"form", AttrType::word}},
       .infer = infer_gelu_grad,
       .split = same_dims,
       .expand = gelu_grad_expand,
       .linear = {0},
       .samples = samples(2, true)},
      {.id = ops::silu,
       .kind = kind,
       .infer = infer_activation,
       .split = same_dims,
       .vjp = silu_vjp,
       .expand = silu_expand,
       .samples = samples(1, false)},
      {.id = ops::silu_grad,
       .kind = kind,
       .infer = infer_activation_grad,
       .split = same_dims,
       .expand = silu_grad_expand,
       .linear = {0},
       .samples = samples(2, false)},
      // Only autodiff needs the node: afterwards it expands into x itself.
      {.id = ops::stop_gradient,
       .kind = kind,
       .infer = [](const InferContext& c) -> Types {
         expect_count(c, 1);
         return {c.in[0]};
       },
       .split = same_dims,
       .vjp = [](const VjpContext&) { return std::vector<Tensor>(1); },
       .expand = [](const ExpandContext& c) { return std::vector<Tensor>{c.in[0]}; },
       .linear = {0},
       .samples = {floats({f32({3, 5})}), integers({i32({2, 1, 7})}, {}, -4, 5),
                   integers({boolean({17})}, {}, 0, 2)}},
  };
}

}  // namespace lockstep
