// Tensors computed from the index along a dim.
#include "core/functions/patterns.h"

#include <algorithm>
#include <cmath>

#include "core/functions/creation.h"
#include "core/functions/operators.h"
#include "core/functions/pointwise.h"
#include "core/functions/shape.h"
#include "core/ops/checks.h"

namespace lockstep {

using namespace functions;

namespace {
Tensor triangle(std::string_view name, Tensor x, int64_t diagonal, bool lower, Here at) {
  need(name, {x}, at);
  if (x.ndim() < 2) refuse(name, {x}, at, str("input is ", x.text(), ", needs 2 or more dims"));
  InFunction line(x, at);
  diagonal = std::clamp(diagonal, -x.size(-2), x.size(-1));  // beyond it, all or nothing
  Tensor row = iota_like(x, -2) + diagonal, column = iota_like(x, -1);
  return where(lower ? column <= row : column >= row, x, full_like(x, 0));
}
}  // namespace
Tensor tril(Tensor x, int64_t diagonal, Here at) { return triangle("tril", x, diagonal, true, at); }
Tensor triu(Tensor x, int64_t diagonal, Here at) { return triangle("triu", x, diagonal, false, at); }

namespace {
using Exact = __int128;
Exact exact(const Number& n) {
  return n.real() < 0 ? Exact{n.bits()} : Exact{static_cast<uint64_t>(n.bits())};
}
Number number(Exact n) {
  if (n >= 0 && n >> 64 == 0) return static_cast<uint64_t>(n);
  return n < 0 && n >> 63 == -1 ? Number(static_cast<int64_t>(n)) : Number::beyond(static_cast<double>(n));
}
// The number of steps from `start` to before `end`.
double numbers_between(const Number& start, const Number& end, const Number& step) {
  if (!start.is_integer() || !end.is_integer() || !step.is_integer())
    return std::ceil((end.real() - start.real()) / step.real());
  const Exact way = exact(end) - exact(start), by = exact(step);
  return static_cast<double>(way / by + (way % by != 0 && (way < 0) == (by < 0) ? 1 : 0));
}
}  // namespace
Tensor arange(Tensor beside, Number start, Number end, Number step, DType dtype, Here at) {
  need("arange", {beside}, at);
  if (step.real() == 0) refuse("arange", {beside}, at, "step is 0");
  const double count = numbers_between(start, end, step);
  if (!(count >= 1 && count < 0x1p53))
    refuse("arange", {beside}, at,
           str("from ", start.text(), " to ", end.text(), " by ", step.text(), " there ",
               count < 1 ? "is nothing" : "are too many numbers"));
  (void)held("arange", beside, start, dtype, at);
  if (!step.fits(DType::i64)) (void)held("arange", beside, step, dtype, at);
  InFunction line(beside, at);
  const Shape shape{static_cast<int64_t>(count)};
  if (is_float(dtype)) {
    (void)held("arange", beside, start.real() + (count - 1) * step.real(), dtype, at);
    return convert(iota(beside, shape, 0, DType::f64) * step.real() + start.real(), dtype);
  }
  (void)held("arange", beside, number(exact(start) + exact(step) * (shape[0] - 1)), dtype, at);
  // In words of 64 bits, which wrap: a step down is one up.
  const auto word = [&](const Number& n) {
    return dtype == DType::u64 ? Number(static_cast<uint64_t>(n.bits())) : Number(n.bits());
  };
  Tensor index = iota(beside, shape, 0, dtype == DType::u64 ? DType::u64 : DType::i64);
  return convert(index * word(step) + word(start), dtype);
}
Tensor linspace(Tensor beside, double first, double last, int64_t count, DType dtype, Here at) {
  need("linspace", {beside}, at);
  if (!is_float(dtype)) refuse("linspace", {beside}, at, str("dtype is ", name(dtype), ", needs floats"));
  if (count < 1) refuse("linspace", {beside}, at, str("count is ", count, ", needs 1 or more"));
  for (const double end : {first, last}) (void)held("linspace", beside, end, dtype, at);
  InFunction line(beside, at);
  Tensor index = iota(beside, {count}, 0, DType::f64);
  return convert(index * (count > 1 ? (last - first) / static_cast<double>(count - 1) : 0) + first, dtype);
}
Tensor eye(Tensor beside, int64_t rows, int64_t columns, DType dtype, Here at) {
  need("eye", {beside}, at);
  InFunction line(beside, at);
  Shape shape{rows, columns < 0 ? rows : columns};
  return convert(equal(iota(beside, shape, 0, DType::i32), iota(beside, shape, 1, DType::i32)), dtype);
}
Tensor one_hot(Tensor ids, int64_t classes, DType dtype, Here at) {
  need_ids("one_hot", ids, at);
  if (classes < 1) refuse("one_hot", {ids}, at, str("classes is ", classes, ", needs 1 or more"));
  InFunction line(ids, at);
  Shape shape = ids.shape();
  shape.push_back(classes);
  return convert(equal(iota(ids, shape, -1, ids.dtype()), broadcast_dims(ids, shape, counted(0, ids.ndim()))),
                 dtype);
}

}  // namespace lockstep
