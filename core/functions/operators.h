// Functions of two or three elements and the operators of C++. Shapes broadcast as in NumPy: dims are matched
// from the last and must be equal or 1; the gradient of a broadcast input is summed over the broadcast dims.
// UserError naming both shapes when they do not broadcast, or both types when the dtypes differ. A number
// takes the tensor's dtype: floats round it to the nearest, integers and bool must represent it exactly.
// UserError for a number that the dtype cannot represent: a fraction, NaN or 300 with u8, 1e300 with f32
// (write infinity itself if you mean it).
#pragma once

#include "core/ops/apply.h"
#include "core/types/number.h"

namespace lockstep {

// A C++ number and the line where it is written: the right side of `x += 2`.
struct NumberAt {
  template <class T>
    requires std::is_arithmetic_v<T>
  NumberAt(T value, Here line = Here::current()) : number(value), at(line) {}
  Number number;
  Here at;
};

// Arithmetic of numbers. Integers wrap, a quotient of them is truncated towards 0, and x / 0 is 0.
// Gradients: a + b: dy, dy; a - b: dy, -dy; a * b: dy b, dy a; a / b: dy / b, -dy y / b; -a: -dy.
Tensor operator+(TensorAt a, Tensor b);
Tensor operator-(TensorAt a, Tensor b);
Tensor operator*(TensorAt a, Tensor b);
Tensor operator/(TensorAt a, Tensor b);
Tensor operator-(TensorAt a);
Tensor operator+(TensorAt a, Number b);
Tensor operator-(TensorAt a, Number b);
Tensor operator*(TensorAt a, Number b);
Tensor operator/(TensorAt a, Number b);
Tensor operator+(Number a, TensorAt b);
Tensor operator-(Number a, TensorAt b);
Tensor operator*(Number a, TensorAt b);
Tensor operator/(Number a, TensorAt b);
// a = a + b and so on: another tensor under the same C++ name. Nothing is written in place.
Tensor& operator+=(Tensor& a, TensorAt b);
Tensor& operator-=(Tensor& a, TensorAt b);
Tensor& operator*=(Tensor& a, TensorAt b);
Tensor& operator/=(Tensor& a, TensorAt b);
Tensor& operator+=(Tensor& a, NumberAt b);
Tensor& operator-=(Tensor& a, NumberAt b);
Tensor& operator*=(Tensor& a, NumberAt b);
Tensor& operator/=(Tensor& a, NumberAt b);

// a - floor(a / b) b of numbers: it has b's sign. Integers: 0 for b = 0 (NumPy's; PyTorch refuses it).
// Gradients: dy, -dy floor_divide(a, b). As PyTorch's remainder.
Tensor remainder(Tensor a, Tensor b, Here at = Here::current());
Tensor remainder(Tensor a, Number b, Here at = Here::current());
Tensor remainder(Number a, Tensor b, Here at = Here::current());
Tensor operator%(TensorAt a, Tensor b);
Tensor operator%(TensorAt a, Number b);
Tensor operator%(Number a, TensorAt b);
// floor(a / b) of numbers. Integers: 0 for b = 0, as of remainder, and the smallest one over -1 wraps to
// itself. Floats: computed from the remainder, as in NumPy and PyTorch: 1 over 0.1 gives 9, where floor(a /
// b) would give 10; -3.5 over infinity gives -1; b = 0 gives a / b. bf16 and f16 compute in f32. No gradient.
Tensor floor_divide(Tensor a, Tensor b, Here at = Here::current());
Tensor floor_divide(Tensor a, Number b, Here at = Here::current());
Tensor floor_divide(Number a, Tensor b, Here at = Here::current());
// a^b of floats; NaN for a < 0 unless b is whole. Gradients: dy b a^(b - 1), 0 for b = 0; dy y log(a), 0 for
// a = 0 and b >= 0. As PyTorch.
Tensor pow(Tensor a, Tensor b, Here at = Here::current());
Tensor pow(Number a, Tensor b, Here at = Here::current());
// a b + c of floats of one shape, rounded once. Gradients: dy b, dy a, dy.
Tensor fma(Tensor a, Tensor b, Tensor c, Here at = Here::current());

// The larger one, of numbers; a NaN wins. Gradient: dy to the larger one, half to each at a tie; with a NaN,
// all to b. As PyTorch, but for the gradient at a NaN.
Tensor maximum(Tensor a, Tensor b, Here at = Here::current());
// The smaller one; NaN, ties and gradient as in maximum.
Tensor minimum(Tensor a, Tensor b, Here at = Here::current());

// Comparisons: bool, without a gradient. Equality takes any dtype, order takes numbers. With NaN only != is
// true. 0 equals -0.
Tensor equal(Tensor a, Tensor b, Here at = Here::current());
Tensor not_equal(Tensor a, Tensor b, Here at = Here::current());
Tensor less(Tensor a, Tensor b, Here at = Here::current());
Tensor less_equal(Tensor a, Tensor b, Here at = Here::current());
Tensor greater(Tensor a, Tensor b, Here at = Here::current());
Tensor greater_equal(Tensor a, Tensor b, Here at = Here::current());
// The same as operators. The result is a Tensor, so `if (a < b)` does not compile: choose by where().
Tensor operator==(TensorAt a, TensorAt b);
Tensor operator!=(TensorAt a, TensorAt b);
Tensor operator<(TensorAt a, TensorAt b);
Tensor operator<=(TensorAt a, TensorAt b);
Tensor operator>(TensorAt a, TensorAt b);
Tensor operator>=(TensorAt a, TensorAt b);
Tensor operator==(TensorAt a, Number b);
Tensor operator!=(TensorAt a, Number b);
Tensor operator<(TensorAt a, Number b);
Tensor operator<=(TensorAt a, Number b);
Tensor operator>(TensorAt a, Number b);
Tensor operator>=(TensorAt a, Number b);
Tensor operator==(Number a, TensorAt b);
Tensor operator!=(Number a, TensorAt b);
Tensor operator<(Number a, TensorAt b);
Tensor operator<=(Number a, TensorAt b);
Tensor operator>(Number a, TensorAt b);
Tensor operator>=(Number a, TensorAt b);

// Logic, of any dtype: an element counts as true when it is not 0. bool, without a gradient. As PyTorch. Both
// sides of && and || are computed.
Tensor logical_and(Tensor a, Tensor b, Here at = Here::current());
Tensor logical_or(Tensor a, Tensor b, Here at = Here::current());
Tensor logical_xor(Tensor a, Tensor b, Here at = Here::current());
Tensor logical_not(Tensor x, Here at = Here::current());
Tensor operator&&(TensorAt a, TensorAt b);
Tensor operator||(TensorAt a, TensorAt b);
Tensor operator!(TensorAt a);
// Bits of integers or bool; no gradient. As PyTorch.
Tensor bitwise_and(Tensor a, Tensor b, Here at = Here::current());
Tensor bitwise_or(Tensor a, Tensor b, Here at = Here::current());
Tensor bitwise_xor(Tensor a, Tensor b, Here at = Here::current());
inline Tensor bitwise_not(Tensor x, Here at = Here::current()) { return apply1(ops::not_, {x}, {}, at); }
Tensor operator&(TensorAt a, TensorAt b);
Tensor operator|(TensorAt a, TensorAt b);
Tensor operator^(TensorAt a, TensorAt b);
Tensor operator&(TensorAt a, Number b);
Tensor operator|(TensorAt a, Number b);
Tensor operator^(TensorAt a, Number b);
Tensor operator~(TensorAt a);
// Integers multiplied or divided by 2^b, by shifting bits; a right shift of a signed integer keeps the sign.
// b is from 0 to bits - 1. No gradient. As PyTorch.
Tensor bitwise_left_shift(Tensor a, Tensor b, Here at = Here::current());
Tensor bitwise_right_shift(Tensor a, Tensor b, Here at = Here::current());
Tensor bitwise_left_shift(Tensor a, Number b, Here at = Here::current());
Tensor bitwise_right_shift(Tensor a, Number b, Here at = Here::current());

// a where the condition (bool) holds, else b; a and b have any one dtype. Gradient: dy where the input was
// taken, else 0. As in PyTorch, NaN comes out where a 0 meets an infinite slope of the branch not taken.
Tensor where(Tensor condition, Tensor a, Tensor b, Here at = Here::current());
// `value` where the mask (bool) holds, else x. Gradient: dy where x was taken, else 0. As PyTorch.
Tensor masked_fill(Tensor x, Tensor mask, Number value, Here at = Here::current());
// a + weight (b - a) of floats. As PyTorch, which computes the same from b for a weight of 1/2 and more.
Tensor lerp(Tensor a, Tensor b, double weight, Here at = Here::current());

}  // namespace lockstep
