// Formulas of reductions and of dot: dims are permuted, then plain loops accumulate in double (integers in
// int64, wrapping).
#include <algorithm>
#include <cmath>
#include <numeric>

#include "compiler/reference/array.h"

namespace lockstep::compiler::reference {

namespace {

bool contains(const std::vector<int64_t>& list, int64_t value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

// All dims that are in none of the lists, in order.
std::vector<int64_t> others(size_t rank, const std::vector<int64_t>& a, const std::vector<int64_t>& b = {}) {
  std::vector<int64_t> made;
  for (int64_t d = 0; d < static_cast<int64_t>(rank); ++d)
    if (!contains(a, d) && !contains(b, d)) made.push_back(d);
  return made;
}
Shape sizes(const DenseArray& x, const std::vector<int64_t>& dims) {
  Shape made;
  for (int64_t d : dims) made.push_back(x.shape[d]);
  return made;
}
std::vector<int64_t> joined(std::vector<int64_t> a, const std::vector<int64_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// The lowest or highest value of a dtype: the result of an empty max or min.
int64_t integer_end(DType dtype, bool lowest) {
  if (is_float(dtype)) return 0;
  switch (dtype) {
    case DType::i32:
      return lowest ? std::numeric_limits<int32_t>::min() : std::numeric_limits<int32_t>::max();
    case DType::i64:
      return lowest ? std::numeric_limits<int64_t>::min() : std::numeric_limits<int64_t>::max();
    case DType::u64:
      return lowest ? 0 : -1;
    case DType::boolean:
      return !lowest;
    default:
      return lowest ? 0 : (int64_t{1} << (8 * size_of(dtype))) - 1;
  }
}

using RealFold = double (*)(double, double);
using IntFold = int64_t (*)(int64_t, int64_t);

std::vector<DenseArray> fold(const Call& call, double real_start, int64_t int_start, RealFold real,
                             IntFold integer) {
  const DenseArray& x = call.in[0];
  const auto& dims = call.attrs().list("dims");
  std::vector<int64_t> kept = others(x.shape.size(), dims);
  DenseArray moved = permuted(x, joined(kept, dims));
  DenseArray out = make(x.dtype, sizes(x, kept));
  const int64_t inner = numel(sizes(x, dims));
  for (int64_t o = 0; o < out.size(); ++o) {
    if (x.real()) {
      double sum = real_start;
      for (int64_t k = 0; k < inner; ++k) sum = real(sum, moved.f[o * inner + k]);
      out.f[o] = sum;
    } else {
      int64_t sum = int_start;
      for (int64_t k = 0; k < inner; ++k) sum = integer(sum, moved.i[o * inner + k]);
      out.i[o] = sum;
    }
  }
  return {out};
}

int64_t add_words(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
int64_t multiply_words(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}
double larger(double a, double b) { return std::isnan(a) || a > b ? a : b; }
double smaller(double a, double b) { return std::isnan(a) || a < b ? a : b; }
bool less_words(int64_t a, int64_t b) { return static_cast<uint64_t>(a) < static_cast<uint64_t>(b); }

std::vector<DenseArray> sum(const Call& call) {
  return fold(call, 0.0, 0, [](double a, double b) { return a + b; }, add_words);
}
std::vector<DenseArray> prod(const Call& call) {
  return fold(call, 1.0, 1, [](double a, double b) { return a * b; }, multiply_words);
}
std::vector<DenseArray> max(const Call& call) {
  DType dtype = call.in[0].dtype;
  return fold(
      call, -std::numeric_limits<double>::infinity(), integer_end(dtype, true), larger,
      dtype == DType::u64 ? +[](int64_t a, int64_t b) { return less_words(a, b) ? b : a; }
                          : +[](int64_t a, int64_t b) { return std::max(a, b); });
}
std::vector<DenseArray> min(const Call& call) {
  DType dtype = call.in[0].dtype;
  return fold(
      call, std::numeric_limits<double>::infinity(), integer_end(dtype, false), smaller,
      dtype == DType::u64 ? +[](int64_t a, int64_t b) { return less_words(b, a) ? b : a; }
                          : +[](int64_t a, int64_t b) { return std::min(a, b); });
}

// The first index of the largest (smallest) element; a NaN counts as the largest (smallest).
std::vector<DenseArray> arg_extreme(const Call& call) {
  const bool largest = call.node.op == ops::argmax;
  const DenseArray& x = call.in[0];
  const std::vector<int64_t> dim{call.attrs().integer("dim")};
  std::vector<int64_t> kept = others(x.shape.size(), dim);
  DenseArray moved = permuted(x, joined(kept, dim));
  DenseArray out = make(DType::i32, sizes(x, kept));
  const int64_t inner = x.shape[dim[0]];
  LS_CHECK(inner > 0 || out.size() == 0, "[", call.node.op, "] over a dim of size 0");
  auto before = [&](int64_t a, int64_t b) {  // element b beats element a
    if (!x.real()) {
      int64_t u = moved.i[a], v = moved.i[b];
      if (x.dtype == DType::u64) return largest ? less_words(u, v) : less_words(v, u);
      return largest ? u < v : v < u;
    }
    double u = moved.f[a], v = moved.f[b];
    if (std::isnan(u) || std::isnan(v)) return !std::isnan(u) && std::isnan(v);
    return largest ? u < v : v < u;
  };
  for (int64_t o = 0; o < out.size(); ++o) {
    int64_t best = 0;
    for (int64_t k = 1; k < inner; ++k)
      if (before(o * inner + best, o * inner + k)) best = k;
    out.i[o] = best;
  }
  return {out};
}

// c[m,n] = sum over k of a[m,k] b[k,n], row by row, so that the inner loop runs along memory.
template <class T>
void multiply(const T* a, const T* b, T* c, int64_t m, int64_t k, int64_t n) {
  for (int64_t i = 0; i < m; ++i)
    for (int64_t p = 0; p < k; ++p) {
      const T factor = a[i * k + p];
      for (int64_t j = 0; j < n; ++j) c[i * n + j] += factor * b[p * n + j];
    }
}

std::vector<DenseArray> dot(const Call& call) {
  const DenseArray &a = call.in[0], &b = call.in[1];
  const auto &a_batch = call.attrs().list("lhs_batch"), &b_batch = call.attrs().list("rhs_batch");
  const auto &a_contract = call.attrs().list("lhs_contract"), &b_contract = call.attrs().list("rhs_contract");
  std::vector<int64_t> a_free = others(a.shape.size(), a_batch, a_contract),
                       b_free = others(b.shape.size(), b_batch, b_contract);
  LS_CHECK(a.dtype == b.dtype && sizes(a, a_batch) == sizes(b, b_batch) &&
               sizes(a, a_contract) == sizes(b, b_contract),
           "[dot] ", shape_text(a.dtype, a.shape), " and ", shape_text(b.dtype, b.shape));
  DenseArray left = permuted(a, joined(joined(a_batch, a_free), a_contract));
  DenseArray right = permuted(b, joined(joined(b_batch, b_contract), b_free));
  DenseArray out = make(a.dtype, joined(joined(sizes(a, a_batch), sizes(a, a_free)), sizes(b, b_free)));
  const int64_t batch = numel(sizes(a, a_batch)), m = numel(sizes(a, a_free)),
                k = numel(sizes(a, a_contract)), n = numel(sizes(b, b_free));
  for (int64_t s = 0; s < batch; ++s) {
    if (out.real())
      multiply(left.f.data() + s * m * k, right.f.data() + s * k * n, out.f.data() + s * m * n, m, k, n);
    else
      multiply(reinterpret_cast<const uint64_t*>(left.i.data()) + s * m * k,
               reinterpret_cast<const uint64_t*>(right.i.data()) + s * k * n,
               reinterpret_cast<uint64_t*>(out.i.data()) + s * m * n, m, k, n);
  }
  return {out};
}

// linear(x[..., in], w[out, in], b[out]?)
std::vector<DenseArray> linear(const Call& call) {
  const DenseArray &x = call.in[0], &w = call.in[1];
  const int64_t n = w.shape[0], k = w.shape[1], m = rows_of(x.shape).rows;
  LS_CHECK(x.dim(-1) == k, "[linear] ", shape_text(x.dtype, x.shape), " and weight ",
           shape_text(w.dtype, w.shape));
  Shape shape = x.shape;
  shape.back() = n;
  DenseArray out = make(x.dtype, shape), turned = permuted(w, {1, 0});
  if (call.in.size() > 2)
    for (int64_t i = 0; i < m; ++i) std::copy_n(call.in[2].f.begin(), n, out.f.begin() + i * n);
  multiply(x.f.data(), turned.f.data(), out.f.data(), m, k, n);
  return {out};
}

const FormulaRow kReduceRows[] = {{"sum", sum}, {"prod", prod},          {"max", max},
                                  {"min", min}, {"argmax", arg_extreme}, {"argmin", arg_extreme},
                                  {"dot", dot}, {"linear", linear}};

}  // namespace

std::span<const FormulaRow> reduce_formulas() { return kReduceRows; }

}  // namespace lockstep::compiler::reference
