// Creates tensors. `like` and `beside` are any tensors of the graph that the new tensor belongs to; their
// elements are not read. No gradient.
#pragma once

#include <type_traits>
#include <utility>
#include <vector>

#include "core/ops/apply.h"
#include "core/types/number.h"

namespace lockstep {

// `value` everywhere, in shape and dtype of `like`. UserError for a number that the dtype cannot represent:
// see operators.h.
Tensor full_like(Tensor like, Number value, Here at = Here::current());
// `value` everywhere, in this shape and dtype.
Tensor full(Tensor beside, Shape shape, Number value, DType dtype, Here at = Here::current());
Tensor zeros(Tensor beside, Shape shape, DType dtype = DType::f32, Here at = Here::current());
Tensor ones(Tensor beside, Shape shape, DType dtype = DType::f32, Here at = Here::current());
inline Tensor zeros_like(Tensor like, Here at = Here::current()) { return full_like(like, 0, at); }
inline Tensor ones_like(Tensor like, Here at = Here::current()) { return full_like(like, 1, at); }
// Numbers that are known while the step is traced: [values]. Each is a node, so use it for a few tens of
// numbers; put more into the state or a batch field.
Tensor constant(Tensor beside, const std::vector<Number>& values, DType dtype = DType::f32,
                Here at = Here::current());
template <class T>
  requires std::is_arithmetic_v<T>
Tensor constant(Tensor beside, const std::vector<T>& values, DType dtype = DType::f32,
                Here at = Here::current()) {
  return constant(std::move(beside), std::vector<Number>(values.begin(), values.end()), dtype, at);
}
// The index along `dim`: 0, 1, 2, ...; equal along the other dims. Any dtype but bool.
Tensor iota(Tensor beside, Shape shape, int dim, DType dtype, Here at = Here::current());
// The same as i32 in the shape of `like`.
Tensor iota_like(Tensor like, int dim, Here at = Here::current());
// A host scalar [], set before every step without compiling again: "rng.step", or a scalar that an optimizer
// adds to the state ("optim.lr"; State::add_optimizer). UserError when a name is read with two dtypes.
Tensor scalar(Tensor beside, const std::string& name, DType dtype = DType::f32);

}  // namespace lockstep
