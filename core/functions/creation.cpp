// Creation rows with defaults.
#include "core/functions/creation.h"

#include "core/functions/shape.h"
#include "core/ops/checks.h"

namespace lockstep {

using namespace functions;

Tensor full_like(Tensor like, Number value, Here at) {
  (void)held("full", like, value, at);
  return full(like, like.shape(), value, like.dtype(), at);
}
Tensor full(Tensor beside, Shape shape, Number value, DType dtype, Here at) {
  return apply1(ops::full, {},
                {{"shape", shape}, {"value", held("full", beside, value, dtype, at)}, {"dtype", dtype}}, at,
                beside.builder());
}
Tensor zeros(Tensor beside, Shape shape, DType dtype, Here at) {
  return full(beside, std::move(shape), 0, dtype, at);
}
Tensor ones(Tensor beside, Shape shape, DType dtype, Here at) {
  return full(beside, std::move(shape), 1, dtype, at);
}
Tensor constant(Tensor beside, const std::vector<Number>& values, DType dtype, Here at) {
  need("constant", {beside}, at);
  if (values.empty()) refuse("constant", {beside}, at, "has no values");
  std::vector<Tensor> parts;
  for (const Number& value : values) {
    (void)held("constant", beside, value, dtype, at);
    parts.push_back(full(beside, {1}, value, dtype, at));
  }
  return concat(parts, 0, at);
}
Tensor iota(Tensor beside, Shape shape, int dim, DType dtype, Here at) {
  need("iota", {beside}, at);
  int64_t along = dim < 0 ? dim + static_cast<int64_t>(shape.size()) : dim;
  return apply1(ops::iota, {}, {{"shape", shape}, {"dim", along}, {"dtype", dtype}}, at, beside.builder());
}
Tensor iota_like(Tensor like, int dim, Here at) {
  need("iota", {like}, at);
  return iota(like, like.shape(), dim, DType::i32, at);
}
Tensor scalar(Tensor beside, const std::string& name, DType dtype) {
  return {beside.builder(), beside.builder()->scalar_input(name, dtype)};
}

}  // namespace lockstep
