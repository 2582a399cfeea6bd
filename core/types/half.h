// bf16 and f16 as stored bits, with conversions that round to nearest even.
#pragma once

#include <bit>
#include <cstdint>

namespace lockstep {

struct bf16 {
  uint16_t bits = 0;
  bf16() = default;
  explicit bf16(float value) {
    uint32_t u = std::bit_cast<uint32_t>(value);
    if ((u & 0x7fffffffu) > 0x7f800000u) {
      bits = static_cast<uint16_t>((u >> 16) | 0x40);
      return;
    }  // keep NaN a NaN
    bits = static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1)) >> 16);
  }
  explicit operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
};

struct f16 {
  uint16_t bits = 0;
  f16() = default;
  explicit f16(float value) : bits(encode(value)) {}
  explicit operator float() const { return decode(bits); }
  static uint16_t encode(float value);
  static float decode(uint16_t bits);
};

}  // namespace lockstep
