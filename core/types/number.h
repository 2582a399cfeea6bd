// Number: a number of a program as it was written, an integer of 64 bits or a double, and whether a dtype
// holds it.
#pragma once

#include <string>
#include <type_traits>

#include "core/types/dtype.h"

namespace lockstep {

// It stands where a function takes a number beside a tensor: a double would round integers beyond 2^53.
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
  // The nearest double of an integer of more than 64 bits, which no dtype of integers holds.
  static Number beyond(double value);

  // An integer type: its elements as 64 bits, u64's by their bits. Of a number that the dtype holds.
  int64_t bits() const;
  // As an element of a dtype of floats, before memory rounds it; integers round once on the way to f32.
  double real(DType dtype = DType::f64) const;
  // Whether an element of the dtype can be this number: of floats, up to rounding, but no finite number
  // becomes an infinity (f8 ends at its largest), and none but 0 becomes 0; of integers exactly; of bool
  // 0, 1.
  bool fits(DType dtype) const;
  // It as an element of a dtype that holds it: an integer for integers and bool, else a double.
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

// A dtype that holds a number which this one does not: "f32", "i64".
DType dtype_for(const Number& number, DType instead_of);

}  // namespace lockstep
