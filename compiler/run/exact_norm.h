// Exact sums of non-negative doubles in fixed point: addition of integers is associative, so no order and no rank count changes a bit.
#pragma once

#include <cstdint>

namespace lockstep {

// Digits of 32 bits in int64 words: word i counts units of 2^(32 i - 128), i = 0 .. 6, so bits from 2^-128 to 2^96. What lies below 2^-128 is cut off per
// added value (the same on every rank count); values of 2^95 and more, infinities and NaN count in word 7 and make the sum infinite. Normalised digits are
// below 2^32, so up to 2^31 of them add up by an integer all_reduce without overflow.
struct Limbs {
  int64_t words[8] = {};
  void add(double value);        // value >= 0, inf or NaN
  void add(const Limbs& other);
  void normalise();              // carries, so that every digit is below 2^32
  double total() const;          // rounded; infinity when something did not fit
  float norm() const;            // sqrt(total) as f32
};

}  // namespace lockstep
