// What follows from the index along a dim.
#include "core/ops/functions/patterns.h"

#include <cmath>

#include "core/ops/functions/checks.h"
#include "core/ops/functions/creation.h"
#include "core/ops/functions/operators.h"
#include "core/ops/functions/pointwise.h"
#include "core/ops/functions/shape.h"

namespace lockstep {

using namespace functions;

namespace {
Tensor triangle(std::string_view name, Tensor x, int64_t diagonal, bool lower, Here at) {
  need(name, {x}, at);
  if (x.ndim() < 2) refuse(name, {x}, at, str("input is ", x.text(), ", needs 2 or more dims"));
  InFunction line(x, at);
  Tensor row = iota_like(x, -2) + static_cast<double>(diagonal), column = iota_like(x, -1);
  return where(lower ? column <= row : column >= row, x, full_like(x, 0));
}
}  // namespace
Tensor tril(Tensor x, int64_t diagonal, Here at) { return triangle("tril", x, diagonal, true, at); }
Tensor triu(Tensor x, int64_t diagonal, Here at) { return triangle("triu", x, diagonal, false, at); }

Tensor arange(Tensor beside, double start, double end, double step, DType dtype, Here at) {
  need("arange", {beside}, at);
  if (step == 0) refuse("arange", {beside}, at, "step is 0");
  const double count = std::ceil((end - start) / step);
  if (!(count >= 1))
    refuse("arange", {beside}, at, str("from ", start, " to ", end, " by ", step, " there is nothing"));
  InFunction line(beside, at);
  Tensor index = iota(beside, {static_cast<int64_t>(count)}, 0, is_float(dtype) ? DType::f64 : DType::i64);
  if (is_float(dtype) || (step == std::trunc(step) && start == std::trunc(start)))
    return convert(index * step + start, dtype);
  return convert(convert(index, DType::f64) * step + start, dtype);
}
Tensor linspace(Tensor beside, double first, double last, int64_t count, DType dtype, Here at) {
  need("linspace", {beside}, at);
  if (!is_float(dtype)) refuse("linspace", {beside}, at, str("dtype is ", name(dtype), ", needs floats"));
  if (count < 1) refuse("linspace", {beside}, at, str("count is ", count, ", needs 1 or more"));
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
