// Formulas of the optimizers, of norm and clip, and of the lanes when there is one micro-batch and one rank.
#include <cmath>

#include "compiler/reference/array.h"

namespace lockstep::compiler::reference {

namespace {

// adamw(p, g, m, v, lr, bias1, bias2, scale) -> (p, m, v)
std::vector<DenseArray> adamw(const Call& call) {
  const DenseArray& g = call.in[1];
  const double lr = call.in[4].f[0], bias1 = call.in[5].f[0], bias2 = call.in[6].f[0],
               scale = call.in[7].f[0];
  const double beta1 = call.attrs().number("beta1"), beta2 = call.attrs().number("beta2"),
               eps = call.attrs().number("eps");
  const double decay = call.attrs().number("weight_decay");
  DenseArray p = call.in[0], m = call.in[2], v = call.in[3];
  for (size_t k = 0; k < p.f.size(); ++k) {
    const double grad = g.f[k] * scale;
    m.f[k] = beta1 * m.f[k] + (1 - beta1) * grad;
    v.f[k] = beta2 * v.f[k] + (1 - beta2) * grad * grad;
    p.f[k] = p.f[k] * (1 - lr * decay) - lr / bias1 * m.f[k] / (std::sqrt(v.f[k]) / std::sqrt(bias2) + eps);
  }
  return {p, m, v};
}

// sgd(p, g, m, lr, scale) -> (p, m)
std::vector<DenseArray> sgd(const Call& call) {
  const DenseArray& g = call.in[1];
  const double lr = call.in[3].f[0], scale = call.in[4].f[0], momentum = call.attrs().number("momentum"),
               decay = call.attrs().number("weight_decay");
  DenseArray p = call.in[0], m = call.in[2];
  for (size_t k = 0; k < p.f.size(); ++k) {
    m.f[k] = momentum * m.f[k] + g.f[k] * scale + decay * p.f[k];
    p.f[k] -= lr * m.f[k];
  }
  return {p, m};
}

std::vector<DenseArray> global_norm(const Call& call) {
  double squares = 0;
  for (const DenseArray& g : call.in)
    for (double x : g.f) squares += x * x;
  DenseArray out = make(statistics_dtype(call.in[0].dtype), {});
  out.f[0] = std::sqrt(squares);
  return {out};
}

std::vector<DenseArray> clip_scale(const Call& call) {
  DenseArray out = call.in[0];
  const double scale = call.attrs().number("max") / (out.f[0] + 1e-6);
  out.f[0] = std::isnan(scale) ? scale : std::min(1.0, scale);
  return {out};
}

std::vector<DenseArray> identity(const Call& call) { return {call.in[0]}; }

// lane_sum(x) -> (x, of bf16 as f32, the sum of squares of each row of dim 0; a scalar is one row)
std::vector<DenseArray> lane_sum(const Call& call) {
  const DenseArray& x = call.in[0];
  const int64_t rows = x.shape.empty() ? 1 : x.shape[0], width = rows ? x.size() / rows : 0;
  DenseArray squares = make(DType::f64, {rows});
  for (int64_t k = 0; k < x.size(); ++k) squares.f[k / width] += x.f[k] * x.f[k];
  DenseArray sum = x;
  if (x.dtype == DType::bf16) sum.dtype = DType::f32;
  return {sum, squares};
}

const FormulaRow kRows[] = {
    {"adamw", adamw},        {"sgd", sgd},           {"global_norm", global_norm}, {"clip_scale", clip_scale},
    {"sum_lanes", identity}, {"lane_sum", lane_sum}, {"lane_count", identity},     {"local_rows", identity},
};

}  // namespace

std::span<const FormulaRow> update_formulas() { return kRows; }

}  // namespace lockstep::compiler::reference
