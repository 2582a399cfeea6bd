// f8_e4m3 and f8_e5m2 as stored bits (OCP 8-bit floating point, 2023), with conversions that round to nearest
// even.
#pragma once

#include <cstdint>

namespace lockstep {

// Sign, 4 bits of exponent, 3 of mantissa: up to 448. It has no infinity; infinities and numbers beyond 448
// become 448 (as CUDA's cvt.satfinite), and a NaN stays a NaN.
struct f8_e4m3 {
  uint8_t bits = 0;
  f8_e4m3() = default;
  explicit f8_e4m3(float value) : bits(encode(value)) {}
  explicit operator float() const { return decode(bits); }
  static uint8_t encode(float value);
  static float decode(uint8_t bits);
  static constexpr float kMost = 448;
};

// Sign, 5 bits of exponent, 2 of mantissa: up to 57344. Numbers beyond that, and infinities, become 57344.
struct f8_e5m2 {
  uint8_t bits = 0;
  f8_e5m2() = default;
  explicit f8_e5m2(float value) : bits(encode(value)) {}
  explicit operator float() const { return decode(bits); }
  static uint8_t encode(float value);
  static float decode(uint8_t bits);
  static constexpr float kMost = 57344;
};

}  // namespace lockstep
