// Number: a number as a program wrote it, a 64-bit integer or a double; checks whether a dtype can represent
// it.
#pragma once

#include <string>
#include <type_traits>

#include "core/types/dtype.h"

namespace lockstep {

// Functions take it for a number that is combined with a tensor: a double would round integers beyond 2^53.
class Number {
 public:
  Number() = default;
  template <class T>
    requires std::is_arithmetic_v<T>
  Number(T value) {  // implicit: made at the call
    if constexpr (std::is_floating_point_v<T>)
      kind_ = Kind::real, real_ = static_cast<double>(value);
    else
      whole_ = static_cast<uint64_t>(value);
    if constexpr (std::is_integral_v<T> && std::is_signed_v<T>)
      if (value < 0) kind_ = Kind::negative;
  }
  // For an integer of more than 64 bits, which no integer dtype can represent: its nearest double.
  static Number beyond(double value);

  // The value in an integer dtype as 64 bits (u64 by its bits). The dtype must be able to represent it.
  int64_t bits() const;
  // The value in a float dtype before it is rounded for storage; integers are rounded once on the way to f32.
  double real(DType dtype = DType::f64) const;
  // Whether the dtype can represent the number. Floats: up to rounding, but no finite number may become
  // infinite (f8: exceed its largest), and none but 0 may become 0. Integers: exactly. bool: 0 and 1.
  bool fits(DType dtype) const;
  // The number as an element of a dtype that can represent it: an integer for integers and bool, else a
  // double.
  Number in(DType dtype) const;
  bool is_integer() const { return kind_ == Kind::whole || kind_ == Kind::negative; }
  std::string text() const;  // as it was written, shortest
  bool operator==(const Number&) const = default;
  bool same_bits(const Number& other) const;  // -0 and 0 differ, equal NaNs do not

 private:
  enum class Kind : uint8_t { whole, negative, real, beyond };
  Kind kind_ = Kind::whole;
  uint64_t whole_ = 0;  // of integers: the value, or its two's complement
  double real_ = 0;
};

// A dtype that represents the number, instead of one that cannot: "f32", "i64".
DType dtype_for(const Number& number, DType instead_of);

}  // namespace lockstep
