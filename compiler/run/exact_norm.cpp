// Fixed-point sums.
#include "compiler/run/exact_norm.h"

#include <cmath>
#include <limits>

namespace lockstep {

namespace {
constexpr int kDigits = 7;
constexpr int kLowest = -128;  // exponent of the least bit
}  // namespace

void Limbs::add(double value) {
  if (!(value < 0x1p95)) {
    ++words[7];
    return;
  }
  int exponent = 0;
  double fraction = std::frexp(value, &exponent);                         // value = fraction * 2^exponent, fraction in [0.5, 1)
  auto mantissa = static_cast<uint64_t>(std::ldexp(fraction, 53));         // 53 bits
  int shift = exponent - 53 - kLowest;                                     // of the mantissa's least bit above the window's
  if (shift <= -64) return;
  if (shift < 0) mantissa >>= -shift, shift = 0;
  int digit = shift / 32, inside = shift % 32;
  unsigned __int128 wide = static_cast<unsigned __int128>(mantissa) << inside;
  for (int i = digit; i < kDigits && wide; ++i, wide >>= 32) words[i] += static_cast<int64_t>(static_cast<uint64_t>(wide) & 0xffffffffu);
  if (words[digit] > (int64_t{1} << 61)) normalise();
}

void Limbs::add(const Limbs& other) {
  for (int i = 0; i < 8; ++i) words[i] += other.words[i];
}

void Limbs::normalise() {
  int64_t carry = 0;
  for (int i = 0; i < kDigits; ++i) {
    words[i] += carry;
    carry = words[i] >> 32;
    words[i] &= 0xffffffff;
  }
  words[7] += carry;  // beyond the window
}

double Limbs::total() const {
  Limbs copy = *this;
  copy.normalise();
  if (copy.words[7]) return std::numeric_limits<double>::infinity();
  // The top 128 bits hold more than a double's; what is below only decides ties, so it is folded into a sticky bit.
  int top = kDigits - 1;
  while (top > 0 && copy.words[top] == 0) --top;
  unsigned __int128 wide = 0;
  int low = top - 3 < 0 ? 0 : top - 3;
  for (int i = top; i >= low; --i) wide = wide << 32 | static_cast<uint64_t>(copy.words[i]);
  for (int i = 0; i < low; ++i)
    if (copy.words[i]) wide |= 1;
  // Round to nearest even on 53 bits.
  int bits = 0;
  for (unsigned __int128 w = wide; w; w >>= 1) ++bits;
  int drop = bits > 53 ? bits - 53 : 0;
  if (drop) {
    unsigned __int128 rest = wide & ((static_cast<unsigned __int128>(1) << drop) - 1), half = static_cast<unsigned __int128>(1) << (drop - 1);
    wide >>= drop;
    if (rest > half || (rest == half && (wide & 1))) ++wide;
  }
  return std::ldexp(static_cast<double>(static_cast<uint64_t>(wide)), drop + 32 * low + kLowest);
}

float Limbs::norm() const { return static_cast<float>(std::sqrt(total())); }

}  // namespace lockstep
