// Formulas of products in float8: operands rounded to 8 bits, sums in double.
#include <algorithm>
#include <cmath>

#include "compiler/reference/array.h"

namespace lockstep::compiler::reference {

uint8_t encode_float8(DType dtype, float value) {
  return dtype == DType::f8_e4m3 ? f8_e4m3(value).bits : f8_e5m2(value).bits;
}

namespace {
double decode(DType dtype, int64_t bits) {
  const auto held = static_cast<uint8_t>(bits);
  return dtype == DType::f8_e4m3 ? f8_e4m3::decode(held) : f8_e5m2::decode(held);
}

double largest(const DenseArray& x) {
  double most = 0;
  for (double value : x.f) {
    if (std::isnan(value)) return value;
    most = std::max(most, std::fabs(value));
  }
  return most;
}
DenseArray turned(const DenseArray& x) {
  auto [rows, columns] = rows_of(x.shape);
  DenseArray out = make(x.dtype, {columns, rows});
  auto turn = [rows = rows, columns = columns](const auto& from, auto& to) {
    for (size_t i = 0; i < from.size(); ++i) to[i % columns * rows + i / columns] = from[i];
  };
  turn(x.i, out.i), turn(x.f, out.f);  // codes, or numbers
  return out;
}
// The largest magnitude of each row, or of each column.
std::vector<double> largest_of(const DenseArray& x, bool rows) {
  auto [count, columns] = rows_of(x.shape);
  std::vector<double> out(rows ? count : columns);
  for (int64_t r = 0; r < count; ++r)
    for (int64_t c = 0; c < columns; ++c) {
      const double value = std::fabs(x.f[r * columns + c]);
      double& most = out[rows ? r : c];
      if (std::isnan(value) || value > most) most = value;
    }
  return out;
}
// A scale and its inverse, in f32 as on the devices.
struct Scale {
  float by, inverse;
};
Scale scale_of(double magnitude, DType dtype) {
  const float most = dtype == DType::f8_e4m3 ? f8_e4m3::kMost : f8_e5m2::kMost;
  const auto given = static_cast<float>(magnitude), at_least = given < 1e-12f ? 1e-12f : given;
  return {most / at_least, at_least / most};
}
// x in float8 by scales of its rows, and the inverses of the scales.
std::pair<DenseArray, DenseArray> by_rows(const DenseArray& x, const std::vector<double>& most, DType dtype) {
  auto [rows, columns] = rows_of(x.shape);
  DenseArray out = make(dtype, x.shape), inverse = make(DType::f32, {rows});
  for (int64_t r = 0; r < rows; ++r) {
    const Scale scale = scale_of(most[r], dtype);
    inverse.f[r] = scale.inverse;
    for (int64_t c = 0; c < columns; ++c)
      out.i[r * columns + c] = encode_float8(dtype, static_cast<float>(x.f[r * columns + c]) * scale.by);
  }
  return {out, inverse};
}

DenseArray cast(const DenseArray& x, double magnitude, DType dtype) {
  const Scale scale = scale_of(magnitude, dtype);
  DenseArray out = make(dtype, x.shape);
  for (size_t i = 0; i < x.f.size(); ++i)
    out.i[i] = encode_float8(dtype, static_cast<float>(x.f[i]) * scale.by);
  return out;
}
DenseArray inverse_of(double magnitude, DType dtype) {
  DenseArray out = make(DType::f32, {});
  out.f[0] = scale_of(magnitude, dtype).inverse;
  return out;
}
// x and its largest magnitude -> x in float8, its transpose, and the inverse of the scale twice.
std::vector<DenseArray> rounded(const DenseArray& x, double magnitude, DType dtype) {
  const DenseArray out = cast(x, magnitude, dtype), inverse = inverse_of(magnitude, dtype);
  return {out, turned(out), inverse, inverse};
}
// x and the largest magnitudes of its rows and of its columns -> x in float8 by rows, its transpose by
// columns, the inverses of both.
std::vector<DenseArray> rounded_rowwise(const DenseArray& x, const std::vector<double>& rows,
                                        const std::vector<double>& columns, DType dtype) {
  auto [out, inverse] = by_rows(x, rows, dtype);
  auto [other, inverse_turned] = by_rows(turned(x), columns, dtype);
  return {out, other, inverse, inverse_turned};
}
std::vector<DenseArray> quantize(const Call& call) {
  const DType dtype = call.attrs().dtype("dtype");
  if (call.attrs().has("half")) {
    const double most = call.in[1].f[0];
    if (call.attrs().word("half") == "cast") return {cast(call.in[0], most, dtype)};
    return {turned(call.in[0]), inverse_of(most, dtype)};
  }
  if (call.in.size() == 3) return rounded_rowwise(call.in[0], call.in[1].f, call.in[2].f, dtype);
  std::vector<DenseArray> out = rounded(call.in[0], call.in[1].f[0], dtype);
  out.pop_back();
  return out;
}
// An operand of a linear layer: which one and, if delayed, its history.
struct Operand {
  const DenseArray& x;
  int64_t row;  // of the history: input, weight, gradient
  DType dtype;
};
// Scales by the largest magnitude of earlier steps. `at_first`: the inverse of the scale if there is none
// yet.
std::vector<DenseArray> rounded_delayed(const Operand& of, const DenseArray& history, double at_first) {
  const int64_t steps = history.shape[1];
  double most = 0;
  for (int64_t i = 0; i < steps; ++i) most = std::max(most, history.f[of.row * steps + i]);
  if (most == 0) {
    const float largest_number = of.dtype == DType::f8_e4m3 ? f8_e4m3::kMost : f8_e5m2::kMost;
    most = static_cast<float>(at_first) * largest_number;
  }
  std::vector<DenseArray> out = rounded(of.x, most, of.dtype);
  const bool finite = std::isfinite(largest(of.x));
  for (size_t i : {2, 3})
    if (!finite) out[i].f[0] = std::nan("");
  return out;
}
std::vector<DenseArray> operand(const Call& call, const Operand& of, const DenseArray* history,
                                double at_first = 1) {
  if (history) return rounded_delayed(of, *history, at_first);
  if (!call.attrs().flag("rowwise")) return rounded(of.x, largest(of.x), of.dtype);
  return rounded_rowwise(of.x, largest_of(of.x, true), largest_of(of.x, false), of.dtype);
}

// a [..., k], b [n, k] -> [..., n]
std::vector<double> product(const DenseArray& a, const DenseArray& b) {
  auto [rows, inner] = rows_of(a.shape);
  const int64_t columns = b.shape[0];
  std::vector<double> left(a.i.size()), right(b.i.size()), out(rows * columns);
  for (size_t i = 0; i < left.size(); ++i) left[i] = decode(a.dtype, a.i[i]);
  for (size_t i = 0; i < right.size(); ++i) right[i] = decode(b.dtype, b.i[i]);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      for (int64_t k = 0; k < inner; ++k) out[r * columns + c] += left[r * inner + k] * right[c * inner + k];
  return out;
}
// There is one inverse for all, or one for each row of their side.
DenseArray scaled(const DenseArray& a, const DenseArray& b, const DenseArray& inverse_a,
                  const DenseArray& inverse_b, const DenseArray* bias, DType dtype) {
  Shape shape = a.shape;
  const size_t columns = shape.back() = b.shape[0];
  DenseArray out = make(dtype, shape);
  out.f = product(a, b);
  for (size_t i = 0; i < out.f.size(); ++i) {
    const double left = inverse_a.f[inverse_a.f.size() == 1 ? 0 : i / columns],
                 right = inverse_b.f[inverse_b.f.size() == 1 ? 0 : i % columns];
    out.f[i] = out.f[i] * left * right + (bias ? bias->f[i % columns] : 0);
  }
  return out;
}
std::vector<DenseArray> scaled_mm(const Call& call) {
  return {scaled(call.in[0], call.in[1], call.in[2], call.in[3], call.in.size() == 5 ? &call.in[4] : nullptr,
                 DType::bf16)};
}

// f64 is not rounded.
DenseArray plain(const DenseArray& a, bool a_turned, const DenseArray& b, bool b_turned, Shape shape) {
  auto [rows, columns] = rows_of(a.shape);
  auto [b_rows, b_columns] = rows_of(b.shape);
  const int64_t m = a_turned ? columns : rows, inner = a_turned ? rows : columns,
                n = b_turned ? b_columns : b_rows;
  DenseArray out = make(DType::f64, std::move(shape));
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j)
      for (int64_t k = 0; k < inner; ++k)
        out.f[i * n + j] += a.f[a_turned ? k * columns + i : i * columns + k] *
                            b.f[b_turned ? k * b_columns + j : j * b_columns + k];
  return out;
}
// For delayed products: the layer's own history, and the one from which the scale of x follows.
size_t count_histories(const Call& call) {
  return call.attrs().flag("delayed") ? 1 + call.attrs().flag("shares") : 0;
}
struct Histories {
  const DenseArray *own = nullptr, *of_x = nullptr;
};
Histories histories_of(const Call& call, size_t own) {
  const size_t count = count_histories(call);
  if (count == 0) return {};
  return {&call.in[own], count == 2 ? &call.in.back() : &call.in[own]};
}
std::vector<DenseArray> linear_float8(const Call& call) {
  const DenseArray &x = call.in[0], &w = call.in[1];
  const size_t count = count_histories(call);
  const Histories histories = histories_of(call, call.in.size() - count);
  const DenseArray* bias = call.in.size() == 3 + count ? &call.in[2] : nullptr;
  if (x.dtype == DType::f64) {
    Shape shape = x.shape;
    shape.back() = w.shape[0];
    DenseArray y = plain(x, false, w, false, shape);
    for (size_t i = 0; bias && i < y.f.size(); ++i) y.f[i] += bias->f[i % bias->f.size()];
    return {y};
  }
  const auto a = operand(call, {x, 0, DType::f8_e4m3}, histories.of_x),
             b = operand(call, {w, 1, DType::f8_e4m3}, histories.own);
  return {scaled(a[0], b[0], a[2], b[2], bias, x.dtype)};
}
std::vector<DenseArray> linear_float8_grad(const Call& call) {
  const DenseArray &dy = call.in[0], &x = call.in[1], &w = call.in[2];
  if (x.dtype == DType::f64) return {plain(dy, false, w, true, x.shape), plain(dy, true, x, true, w.shape)};
  const Histories histories = histories_of(call, 3);
  const double at_first = call.in.size() == 4 + count_histories(call) ? call.in[4].f[0] : 1;
  const auto d = operand(call, {dy, 2, call.attrs().dtype("gradients")}, histories.own, at_first),
             a = operand(call, {x, 0, DType::f8_e4m3}, histories.of_x),
             b = operand(call, {w, 1, DType::f8_e4m3}, histories.own);
  return {scaled(d[0], b[1], d[2], b[3], nullptr, x.dtype), scaled(d[1], a[1], d[3], a[3], nullptr, w.dtype)};
}
}  // namespace

std::span<const FormulaRow> float8_formulas() {
  static constexpr FormulaRow rows[] = {{ops::quantize, quantize},
                                        {ops::scaled_mm, scaled_mm},
                                        {ops::linear_float8, linear_float8},
                                        {ops::linear_float8_grad, linear_float8_grad}};
  return rows;
}

}  // namespace lockstep::compiler::reference
