// Two tensors broadcast to one shape, and one node on them.
#include "core/ops/functions/operators.h"

#include "core/ops/functions/checks.h"
#include "core/ops/functions/creation.h"
#include "core/ops/functions/shape.h"

namespace lockstep {

using namespace functions;

namespace {
// A node of two inputs, broadcast to one shape.
Tensor binary(OpId op, Tensor a, Tensor b, Here at) {
  if (!a.defined() || !b.defined()) return apply1(op, {a, b}, {}, at);
  SourceLine line = source_line(*a.builder(), at);
  if (has_policy(a)) {  // before a broadcast, whose gradient is then a sum in the wider dtype
    const auto taken = under_policy(op.name(), {a, b}, line);
    a = taken[0], b = taken[1];
  }
  std::vector<TypedShape> in{{a.dtype(), a.shape()}, {b.dtype(), b.shape()}};
  InferContext context{op, in, {}, line};
  Shape shape;
  if (!broadcast_shape(a.shape(), b.shape(), shape))
    context.fail(str("shapes do not broadcast: lhs ", a.text(), ", rhs ", b.text(),
                     "; dims are matched from the last, and must be equal or 1"));
  if (a.dtype() != b.dtype())
    context.fail(str("dtypes differ: lhs ", a.text(), ", rhs ", b.text(), "; convert one side?"));
  return apply1(op, {broadcast_to(a, shape, at), broadcast_to(b, shape, at)}, {}, at);
}
Tensor binary(OpId op, const TensorAt& a, double b) {
  return binary(op, a.tensor, full_like(a.tensor, b, a.at), a.at);
}
Tensor binary(OpId op, double a, const TensorAt& b) {
  return binary(op, full_like(b.tensor, a, b.at), b.tensor, b.at);
}
Tensor binary(OpId op, const TensorAt& a, const TensorAt& b) { return binary(op, a.tensor, b.tensor, a.at); }
Tensor truth(std::string_view name, Tensor x, Here at) {
  need(name, {x}, at);
  return x.dtype() == DType::boolean ? x : apply1(ops::convert, {x}, {{"dtype", DType::boolean}}, at);
}
}  // namespace

#define LOCKSTEP_ARITHMETIC(sign, row)                                                            \
  Tensor operator sign(TensorAt a, Tensor b) { return binary(row, a.tensor, b, a.at); }           \
  Tensor operator sign(TensorAt a, double b) { return binary(row, a, b); }                        \
  Tensor operator sign(double a, TensorAt b) { return binary(row, a, b); }                        \
  Tensor& operator sign##=(Tensor & a, TensorAt b) { return a = binary(row, a, b.tensor, b.at); } \
  Tensor& operator sign##=(Tensor & a, NumberAt b) { return a = binary(row, TensorAt(a, b.at), b.number); }
LOCKSTEP_ARITHMETIC(+, ops::add)
LOCKSTEP_ARITHMETIC(-, ops::sub)
LOCKSTEP_ARITHMETIC(*, ops::mul)
LOCKSTEP_ARITHMETIC(/, ops::div)
#undef LOCKSTEP_ARITHMETIC
Tensor operator-(TensorAt a) { return apply1(ops::neg, {a.tensor}, {}, a.at); }

Tensor remainder(Tensor a, Tensor b, Here at) { return binary(ops::remainder, a, b, at); }
Tensor operator%(TensorAt a, Tensor b) { return binary(ops::remainder, a.tensor, b, a.at); }
Tensor operator%(TensorAt a, double b) { return binary(ops::remainder, a, b); }
Tensor floor_divide(Tensor a, Tensor b, Here at) {
  need("floor_divide", {a, b}, at);
  InFunction line(a, at);
  if (is_float(a.dtype())) return apply1(ops::floor, {a / b});
  return (a - remainder(a, b)) / b;
}
Tensor pow(Tensor a, Tensor b, Here at) { return binary(ops::pow, a, b, at); }
Tensor pow(double a, Tensor b, Here at) { return binary(ops::pow, a, TensorAt(b, at)); }
Tensor fma(Tensor a, Tensor b, Tensor c, Here at) { return apply1(ops::fma, {a, b, c}, {}, at); }
Tensor maximum(Tensor a, Tensor b, Here at) { return binary(ops::maximum, a, b, at); }
Tensor minimum(Tensor a, Tensor b, Here at) { return binary(ops::minimum, a, b, at); }

Tensor equal(Tensor a, Tensor b, Here at) { return binary(ops::eq, a, b, at); }
Tensor not_equal(Tensor a, Tensor b, Here at) { return binary(ops::ne, a, b, at); }
Tensor less(Tensor a, Tensor b, Here at) { return binary(ops::lt, a, b, at); }
Tensor less_equal(Tensor a, Tensor b, Here at) { return binary(ops::le, a, b, at); }
Tensor greater(Tensor a, Tensor b, Here at) { return binary(ops::lt, b, a, at); }
Tensor greater_equal(Tensor a, Tensor b, Here at) { return binary(ops::le, b, a, at); }
#define LOCKSTEP_COMPARISON(sign, row)                                       \
  Tensor operator sign(TensorAt a, TensorAt b) { return binary(row, a, b); } \
  Tensor operator sign(TensorAt a, double b) { return binary(row, a, b); }   \
  Tensor operator sign(double a, TensorAt b) { return binary(row, a, b); }
#define LOCKSTEP_COMPARISON_TURNED(sign, row)                                                    \
  Tensor operator sign(TensorAt a, TensorAt b) { return binary(row, b.tensor, a.tensor, a.at); } \
  Tensor operator sign(TensorAt a, double b) { return binary(row, b, a); }                       \
  Tensor operator sign(double a, TensorAt b) { return binary(row, b, a); }
LOCKSTEP_COMPARISON(==, ops::eq)
LOCKSTEP_COMPARISON(!=, ops::ne)
LOCKSTEP_COMPARISON(<, ops::lt)
LOCKSTEP_COMPARISON(<=, ops::le)
LOCKSTEP_COMPARISON_TURNED(>, ops::lt)
LOCKSTEP_COMPARISON_TURNED(>=, ops::le)
#undef LOCKSTEP_COMPARISON
#undef LOCKSTEP_COMPARISON_TURNED

Tensor logical_and(Tensor a, Tensor b, Here at) {
  return binary(ops::and_, truth("logical_and", a, at), truth("logical_and", b, at), at);
}
Tensor logical_or(Tensor a, Tensor b, Here at) {
  return binary(ops::or_, truth("logical_or", a, at), truth("logical_or", b, at), at);
}
Tensor logical_xor(Tensor a, Tensor b, Here at) {
  return binary(ops::xor_, truth("logical_xor", a, at), truth("logical_xor", b, at), at);
}
Tensor logical_not(Tensor x, Here at) { return apply1(ops::not_, {truth("logical_not", x, at)}, {}, at); }
Tensor operator&&(TensorAt a, TensorAt b) { return logical_and(a.tensor, b.tensor, a.at); }
Tensor operator||(TensorAt a, TensorAt b) { return logical_or(a.tensor, b.tensor, a.at); }
Tensor operator!(TensorAt a) { return logical_not(a.tensor, a.at); }
Tensor bitwise_and(Tensor a, Tensor b, Here at) { return binary(ops::and_, a, b, at); }
Tensor bitwise_or(Tensor a, Tensor b, Here at) { return binary(ops::or_, a, b, at); }
Tensor bitwise_xor(Tensor a, Tensor b, Here at) { return binary(ops::xor_, a, b, at); }
Tensor operator&(TensorAt a, TensorAt b) { return binary(ops::and_, a, b); }
Tensor operator|(TensorAt a, TensorAt b) { return binary(ops::or_, a, b); }
Tensor operator^(TensorAt a, TensorAt b) { return binary(ops::xor_, a, b); }
Tensor operator~(TensorAt a) { return bitwise_not(a.tensor, a.at); }
Tensor bitwise_left_shift(Tensor a, Tensor b, Here at) { return binary(ops::shl, a, b, at); }
Tensor bitwise_right_shift(Tensor a, Tensor b, Here at) { return binary(ops::shr, a, b, at); }

Tensor where(Tensor condition, Tensor a, Tensor b, Here at) {
  need("where", {condition, a, b}, at);
  const auto taken = under_policy(ops::where.name(), {condition, a, b}, source_line(*a.builder(), at));
  a = taken[1], b = taken[2];
  Shape values, shape;
  if (!broadcast_shape(a.shape(), b.shape(), values) || !broadcast_shape(condition.shape(), values, shape))
    refuse("where", {condition}, at,
           str("shapes do not broadcast: condition ", condition.text(), ", ", a.text(), ", ", b.text()));
  return apply1(ops::where,
                {broadcast_to(condition, shape, at), broadcast_to(a, shape, at), broadcast_to(b, shape, at)},
                {}, at);
}
Tensor masked_fill(Tensor x, Tensor mask, double value, Here at) {
  need("masked_fill", {x, mask}, at);
  return where(mask, full_like(x, value, at), x, at);
}
Tensor lerp(Tensor a, Tensor b, double weight, Here at) {
  need_floats("lerp", {a, b}, at);
  return rounded_once("lerp", a, at, [&](Tensor v) { return v + (rules::wide(b) - v) * weight; });
}

}  // namespace lockstep
