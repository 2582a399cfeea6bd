// Formulas of the optimizers, of norm and clip, and of lanes for one micro-batch and one rank.
#include <cmath>
#include <map>

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

// lane_sum(x) -> (x with bf16 as f32, the sum of squares of each row of dim 0; a scalar is one row)
std::vector<DenseArray> lane_sum(const Call& call) {
  const DenseArray& x = call.in[0];
  const int64_t rows = x.shape.empty() ? 1 : x.shape[0], width = rows ? x.size() / rows : 0;
  DenseArray squares = make(DType::f64, {rows});
  for (int64_t k = 0; k < x.size(); ++k) squares.f[k / width] += x.f[k] * x.f[k];
  DenseArray sum = x;
  if (x.dtype == DType::bf16) sum.dtype = DType::f32;
  return {sum, squares};
}

// sum_rows(ids, rows) -> (ids, rows, squares), and lane_rows for one micro-batch: rows of equal ids are
// added; the last id fills the rest.
std::vector<DenseArray> sum_rows(const Call& call) {
  const DenseArray &ids = call.in[0], &rows = call.in[1];
  const int64_t width = rows.dim(1);
  std::map<int64_t, std::vector<int64_t>> places;
  for (int64_t k = 0; k < ids.size(); ++k) places[ids.i[k]].push_back(k);
  DenseArray out_ids = ids, out_rows = rows, squares = make(DType::f64, ids.shape);
  auto at = places.begin();
  for (int64_t k = 0; k < ids.size(); ++k, at != places.end() ? ++at : at) {
    const auto& [id, from] = at == places.end() ? *places.rbegin() : *at;
    out_ids.i[k] = id;
    for (int64_t c = 0; c < width; ++c) {
      double sum = 0;
      for (int64_t place : from) sum += rows.f[place * width + c];
      out_rows.f[k * width + c] = sum;
      if (at != places.end()) squares.f[k] += sum * sum;
    }
  }
  if (call.node.op == ops::lane_rows) return {out_ids, out_rows};
  return {out_ids, out_rows, squares};
}

// put_rows(table, ids, rows) -> table
std::vector<DenseArray> put_rows(const Call& call) {
  DenseArray table = call.in[0];
  const int64_t width = table.dim(1);
  for (int64_t k = 0; k < call.in[1].size(); ++k)
    for (int64_t c = 0; c < width; ++c) table.f[call.in[1].i[k] * width + c] = call.in[2].f[k * width + c];
  return {table};
}

// spread_rows(ids, rows) -> a table of zeros with these rows; the last of equal ids counts
std::vector<DenseArray> spread_rows(const Call& call) {
  const DenseArray &ids = call.in[0], &rows = call.in[1];
  const int64_t width = rows.dim(1);
  DenseArray table = make(rows.dtype, {call.attrs().integer("rows"), width});
  for (int64_t k = 0; k < ids.size(); ++k)
    for (int64_t c = 0; c < width; ++c) table.f[ids.i[k] * width + c] = rows.f[k * width + c];
  return {table};
}

const FormulaRow kUpdateRows[] = {
    {"adamw", adamw},
    {"sgd", sgd},
    {"global_norm", global_norm},
    {"clip_scale", clip_scale},
    {"sum_lanes", identity},
    {"lane_sum", lane_sum},
    {"lane_count", identity},
    {"local_rows", identity},
    {"lane_rows", sum_rows},
    {"sum_rows", sum_rows},
    {"put_rows", put_rows},
    {"spread_rows", spread_rows},
};

}  // namespace

std::span<const FormulaRow> update_formulas() { return kUpdateRows; }

}  // namespace lockstep::compiler::reference
