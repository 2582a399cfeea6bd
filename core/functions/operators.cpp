// Broadcasts two tensors to one shape and appends one node.
#include "core/functions/operators.h"

#include "core/functions/creation.h"
#include "core/functions/shape.h"
#include "core/ops/checks.h"

namespace lockstep {

using namespace functions;

namespace {
// A node of two inputs, broadcast to one shape.
// `turned`: what the caller wrote, b > a as "gt"; then b is its left side, in messages too.
Tensor binary(OpId op, Tensor a, Tensor b, Here at, const char* turned = nullptr) {
  if (!a.defined() || !b.defined()) return apply1(op, {a, b}, {}, at);
  SourceLine line = source_line(*a.builder(), at);
  if (has_policy(a)) {  // before the broadcast, so that its gradient is a sum in the wider dtype
    const auto taken = under_policy(op.name(), {a, b}, line);
    a = taken[0], b = taken[1];
  }
  std::vector<TypedShape> in{{a.dtype(), a.shape()}, {b.dtype(), b.shape()}};
  InferContext context{turned ? intern(turned) : op, in, {}, line};
  const Tensor &lhs = turned ? b : a, &rhs = turned ? a : b;
  Shape shape;
  if (turned && a.dtype() != b.dtype())
    context.fail(str("dtypes differ: lhs ", lhs.text(), ", rhs ", rhs.text(), "; convert one side?"));
  if (!broadcast_shape(a.shape(), b.shape(), shape))
    context.fail(str("shapes do not broadcast: lhs ", lhs.text(), ", rhs ", rhs.text(),
                     "; dims are matched from the last, and must be equal or 1"));
  if (a.dtype() != b.dtype())
    context.fail(str("dtypes differ: lhs ", a.text(), ", rhs ", b.text(), "; convert one side?"));
  return apply1(op, {broadcast_to(a, shape, at), broadcast_to(b, shape, at)}, {}, at);
}
// The number as a tensor in the shape and dtype of x.
Tensor beside(std::string_view function, const Tensor& x, const Number& number, Here at) {
  (void)held(function, x, number, at);
  return full_like(x, number, at);
}
Tensor binary(OpId op, const TensorAt& a, const Number& b) {
  return binary(op, a.tensor, beside(op.name(), a.tensor, b, a.at), a.at);
}
Tensor binary(OpId op, const Number& a, const TensorAt& b) {
  return binary(op, beside(op.name(), b.tensor, a, b.at), b.tensor, b.at);
}
Tensor binary(OpId op, const TensorAt& a, const TensorAt& b) { return binary(op, a.tensor, b.tensor, a.at); }
Tensor truth(std::string_view name, Tensor x, Here at) {
  need(name, {x}, at);
  return x.dtype() == DType::boolean ? x : apply1(ops::convert, {x}, {{"dtype", DType::boolean}}, at);
}
}  // namespace

#define LOCKSTEP_ARITHMETIC(sign, row)                                                            \
  Tensor operator sign(TensorAt a, Tensor b) { return binary(row, a.tensor, b, a.at); }           \
  Tensor operator sign(TensorAt a, Number b) { return binary(row, a, b); }                        \
  Tensor operator sign(Number a, TensorAt b) { return binary(row, a, b); }                        \
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
Tensor operator%(TensorAt a, Number b) { return binary(ops::remainder, a, b); }
Tensor operator%(Number a, TensorAt b) { return binary(ops::remainder, a, b); }
Tensor remainder(Tensor a, Number b, Here at) { return binary(ops::remainder, TensorAt(a, at), b); }
Tensor remainder(Number a, Tensor b, Here at) { return binary(ops::remainder, a, TensorAt(b, at)); }

namespace {
Tensor magnitude(Tensor x) { return apply1(ops::abs, {x}); }
Tensor constant_wide(Tensor x) { return rules::wide(apply1(ops::stop_gradient, {x})); }
// The remainder of C's fmod is exact, so (a - remainder) / b is near the right integer, while a / b may round
// to the next one. A quotient of 0 has the sign of a / b. Adding 0 hides a constant b, since a language may
// divide by constants with an error of a unit in the last place.
Tensor floor_of_floats(const Tensor& a, const Tensor& b) {
  Tensor size = remainder(magnitude(a), magnitude(b)), left = where(a < 0, -size, size);
  Tensor quotient = (a - left) / (b + 0), none = full_like(a, 0);
  quotient = where(left != 0 && (b < 0) != (left < 0), quotient - 1, quotient);
  Tensor down = apply1(ops::floor, {quotient}), plain = a / b;
  down = where(quotient - down > 0.5, down + 1, down);
  return where(b == 0, plain, where(quotient == 0, plain * none, down));
}
// The quotient rounded towards 0, minus one if it is negative and has a remainder.
Tensor floor_of_integers(const Tensor& a, const Tensor& b) {
  Tensor quotient = a / b;
  if (a.dtype() != DType::i32 && a.dtype() != DType::i64) return quotient;
  return where(remainder(a, b) != 0 && (a < 0) != (b < 0), quotient - 1, quotient);
}
}  // namespace
Tensor floor_divide(Tensor a, Tensor b, Here at) {
  need("floor_divide", {a, b}, at);
  InFunction line(a, at);
  const auto taken = under_policy("floor_divide", {a, b}, source_line(*a.builder(), at));
  a = taken[0], b = taken[1];
  if (is_float(a.dtype()) && a.dtype() == b.dtype()) {
    const Precision unrounded(a, DType::f32);
    Tensor y = floor_of_floats(constant_wide(a), constant_wide(b));
    return y.dtype() == a.dtype() ? y : apply1(ops::convert, {y}, {{"dtype", a.dtype()}});
  }
  return floor_of_integers(a, b);
}
Tensor floor_divide(Tensor a, Number b, Here at) {
  return floor_divide(a, beside("floor_divide", a, b, at), at);
}
Tensor floor_divide(Number a, Tensor b, Here at) {
  return floor_divide(beside("floor_divide", b, a, at), b, at);
}
Tensor pow(Tensor a, Tensor b, Here at) { return binary(ops::pow, a, b, at); }
Tensor pow(Number a, Tensor b, Here at) { return binary(ops::pow, a, TensorAt(b, at)); }
Tensor fma(Tensor a, Tensor b, Tensor c, Here at) { return apply1(ops::fma, {a, b, c}, {}, at); }
Tensor maximum(Tensor a, Tensor b, Here at) { return binary(ops::maximum, a, b, at); }
Tensor minimum(Tensor a, Tensor b, Here at) { return binary(ops::minimum, a, b, at); }

Tensor equal(Tensor a, Tensor b, Here at) { return binary(ops::eq, a, b, at); }
Tensor not_equal(Tensor a, Tensor b, Here at) { return binary(ops::ne, a, b, at); }
Tensor less(Tensor a, Tensor b, Here at) { return binary(ops::lt, a, b, at); }
Tensor less_equal(Tensor a, Tensor b, Here at) { return binary(ops::le, a, b, at); }
Tensor greater(Tensor a, Tensor b, Here at) { return binary(ops::lt, b, a, at, "gt"); }
Tensor greater_equal(Tensor a, Tensor b, Here at) { return binary(ops::le, b, a, at, "ge"); }
#define LOCKSTEP_COMPARISON(sign, row)                                       \
  Tensor operator sign(TensorAt a, TensorAt b) { return binary(row, a, b); } \
  Tensor operator sign(TensorAt a, Number b) { return binary(row, a, b); }   \
  Tensor operator sign(Number a, TensorAt b) { return binary(row, a, b); }
#define LOCKSTEP_COMPARISON_TURNED(sign, row, word)                                                    \
  Tensor operator sign(TensorAt a, TensorAt b) { return binary(row, b.tensor, a.tensor, a.at, word); } \
  Tensor operator sign(TensorAt a, Number b) {                                                         \
    return binary(row, beside(word, a.tensor, b, a.at), a.tensor, a.at);                               \
  }                                                                                                    \
  Tensor operator sign(Number a, TensorAt b) {                                                         \
    return binary(row, b.tensor, beside(word, b.tensor, a, b.at), b.at);                               \
  }
LOCKSTEP_COMPARISON(==, ops::eq)
LOCKSTEP_COMPARISON(!=, ops::ne)
LOCKSTEP_COMPARISON(<, ops::lt)
LOCKSTEP_COMPARISON(<=, ops::le)
LOCKSTEP_COMPARISON_TURNED(>, ops::lt, "gt")
LOCKSTEP_COMPARISON_TURNED(>=, ops::le, "ge")
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
Tensor operator&(TensorAt a, Number b) { return binary(ops::and_, a, b); }
Tensor operator|(TensorAt a, Number b) { return binary(ops::or_, a, b); }
Tensor operator^(TensorAt a, Number b) { return binary(ops::xor_, a, b); }
Tensor operator~(TensorAt a) { return bitwise_not(a.tensor, a.at); }
Tensor bitwise_left_shift(Tensor a, Tensor b, Here at) { return binary(ops::shl, a, b, at); }
Tensor bitwise_right_shift(Tensor a, Tensor b, Here at) { return binary(ops::shr, a, b, at); }
Tensor bitwise_left_shift(Tensor a, Number b, Here at) { return binary(ops::shl, TensorAt(a, at), b); }
Tensor bitwise_right_shift(Tensor a, Number b, Here at) { return binary(ops::shr, TensorAt(a, at), b); }

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
Tensor masked_fill(Tensor x, Tensor mask, Number value, Here at) {
  need("masked_fill", {x, mask}, at);
  return where(mask, beside("masked_fill", x, value, at), x, at);
}
Tensor lerp(Tensor a, Tensor b, double weight, Here at) {
  need_floats("lerp", {a, b}, at);
  return rounded_once("lerp", a, at, [&](Tensor v) { return v + (rules::wide(b) - v) * weight; });
}

}  // namespace lockstep
