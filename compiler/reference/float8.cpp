// Formulas of products in float8: operands rounded to 8 bits, sums in double.
#include <algorithm>
#include <cmath>

#include "compiler/reference/array.h"

namespace lockstep::compiler::reference {

namespace {
uint8_t encode(DType dtype, float value) {
  return dtype == DType::f8_e4m3 ? f8_e4m3(value).bits : f8_e5m2(value).bits;
}
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
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) out.i[c * rows + r] = x.i[r * columns + c];
  return out;
}
// x, the largest magnitude -> x in float8, its transpose, the inverse of the scale. As the devices do, in
// f32.
std::vector<DenseArray> rounded(const DenseArray& x, double magnitude, DType dtype) {
  const float most = dtype == DType::f8_e4m3 ? f8_e4m3::kMost : f8_e5m2::kMost;
  const auto given = static_cast<float>(magnitude), at_least = given < 1e-12f ? 1e-12f : given;
  const float scale = most / at_least;
  DenseArray out = make(dtype, x.shape), inverse = make(DType::f32, {});
  for (size_t i = 0; i < x.f.size(); ++i) out.i[i] = encode(dtype, static_cast<float>(x.f[i]) * scale);
  inverse.f[0] = at_least / most;
  return {out, turned(out), inverse};
}
std::vector<DenseArray> quantize(const Call& call) {
  return rounded(call.in[0], call.in[1].f[0], call.attrs().dtype("dtype"));
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
DenseArray scaled(const DenseArray& a, const DenseArray& b, double inverse_a, double inverse_b,
                  const DenseArray* bias, DType dtype) {
  Shape shape = a.shape;
  shape.back() = b.shape[0];
  DenseArray out = make(dtype, shape);
  out.f = product(a, b);
  for (size_t i = 0; i < out.f.size(); ++i)
    out.f[i] = out.f[i] * inverse_a * inverse_b + (bias ? bias->f[i % bias->f.size()] : 0);
  return out;
}
std::vector<DenseArray> scaled_mm(const Call& call) {
  return {scaled(call.in[0], call.in[1], call.in[2].f[0], call.in[3].f[0],
                 call.in.size() == 5 ? &call.in[4] : nullptr, DType::bf16)};
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
std::vector<DenseArray> linear_float8(const Call& call) {
  const DenseArray &x = call.in[0], &w = call.in[1];
  const DenseArray* bias = call.in.size() == 3 ? &call.in[2] : nullptr;
  if (x.dtype == DType::f64) {
    Shape shape = x.shape;
    shape.back() = w.shape[0];
    DenseArray y = plain(x, false, w, false, shape);
    for (size_t i = 0; bias && i < y.f.size(); ++i) y.f[i] += bias->f[i % bias->f.size()];
    return {y};
  }
  const auto a = rounded(x, largest(x), DType::f8_e4m3), b = rounded(w, largest(w), DType::f8_e4m3);
  return {scaled(a[0], b[0], a[2].f[0], b[2].f[0], bias, x.dtype)};
}
std::vector<DenseArray> linear_float8_grad(const Call& call) {
  const DenseArray &dy = call.in[0], &x = call.in[1], &w = call.in[2];
  if (x.dtype == DType::f64) return {plain(dy, false, w, true, x.shape), plain(dy, true, x, true, w.shape)};
  const auto d = rounded(dy, largest(dy), call.attrs().dtype("gradients")),
             a = rounded(x, largest(x), DType::f8_e4m3), b = rounded(w, largest(w), DType::f8_e4m3);
  return {scaled(d[0], b[1], d[2].f[0], b[2].f[0], nullptr, x.dtype),
          scaled(d[1], a[1], d[2].f[0], a[2].f[0], nullptr, w.dtype)};
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
