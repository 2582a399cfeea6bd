// Fixed-point digits: adds a double, carries, and rounds once at the end.
#include "compiler/codegen/sums/exact_norm.h"

#include <bit>
#include <cmath>
#include <limits>

#include "core/base/error.h"

namespace lockstep::compiler {

namespace {
using Wide = unsigned __int128;

constexpr int kDigits = 7, kFlags = 7;
constexpr int kDigitBits = 40;
constexpr int64_t kDigit = int64_t{1} << kDigitBits;
constexpr int kLeast = -150;                         // exponent of the least bit
constexpr int kTop = kLeast + kDigits * kDigitBits;  // 130: everything is below 2^kTop
constexpr int64_t kInf = 1, kNan = int64_t{1} << 32;
constexpr int64_t kFull = int64_t{1} << 62;  // from this size on, a word is carried before more is added
}  // namespace

void Limbs::add(double value) {
  if (std::isnan(value)) {
    words[kFlags] |= kNan;
    return;
  }
  LS_CHECK(value >= 0, "a sum of squares is ", value);
  const auto bits = std::bit_cast<uint64_t>(value);
  const int exponent = static_cast<int>(bits >> 52 & 0x7ff);
  // value = mantissa * 2^(exponent - 1075). Values without the hidden bit (subnormals) are far below the
  // range.
  if (exponent >= kTop + 1023) {  // 2^130 or more, or inf
    words[kFlags] |= kInf;
    return;
  }
  const uint64_t mantissa = exponent ? (bits & ((uint64_t{1} << 52) - 1)) | uint64_t{1} << 52 : 0;
  const int at = exponent - 1075 - kLeast;  // position of the mantissa's least bit, in bits
  if (at <= -53 || mantissa == 0) return;
  const Wide shifted = at < 0 ? Wide{mantissa >> -at} : Wide{mantissa} << (at % kDigitBits);
  const int digit = at < 0 ? 0 : at / kDigitBits;
  int64_t full = 0;
  for (int i = 0; i < 3 && digit + i < kDigits; ++i) {
    auto part = static_cast<int64_t>(shifted >> (i * kDigitBits)) & (kDigit - 1);
    full |= words[digit + i] += part;
  }
  if (full >= kFull) normalise();
}

void Limbs::add(std::span<const double> values) {
  for (double value : values) add(value);
}

void Limbs::add(const Limbs& other) {
  Limbs term = other;
  term.normalise();
  normalise();
  for (int i = 0; i <= kFlags; ++i) words[i] += term.words[i];
}

void Limbs::normalise() {
  for (int i = 0; i + 1 < kDigits; ++i) {
    words[i + 1] += words[i] >> kDigitBits;
    words[i] &= kDigit - 1;
  }
  bool inf = (words[kFlags] & (kNan - 1)) != 0, nan = words[kFlags] >= kNan;
  // Terms are not negative, so a sum that has left the range cannot return to it.
  if (words[kDigits - 1] >= kDigit) inf = true;
  words[kFlags] = nan ? kNan : inf ? kInf : 0;
  // The total no longer depends on the digits. Cleared, they are equal in every order and cannot overflow.
  if (inf || nan)
    for (int i = 0; i < kDigits; ++i) words[i] = 0;
}

double Limbs::total() const {
  Limbs sum = *this;
  sum.normalise();
  if (sum.words[kFlags] >= kNan) return std::numeric_limits<double>::quiet_NaN();
  if (sum.words[kFlags]) return std::numeric_limits<double>::infinity();
  int top = kDigits - 1;
  while (top > 0 && sum.words[top] == 0) --top;
  auto digit = [&](int i) { return i >= 0 ? static_cast<Wide>(sum.words[i]) : Wide{0}; };
  // Three digits have at least 81 significant bits. Lower digits matter only for ties, so one sticky bit
  // represents them.
  Wide value = digit(top) << (2 * kDigitBits) | digit(top - 1) << kDigitBits | digit(top - 2);
  for (int i = 0; i < top - 2; ++i)
    if (sum.words[i]) value |= 1;
  return std::ldexp(static_cast<double>(value), kLeast + (top - 2) * kDigitBits);
}

float Limbs::norm() const { return static_cast<float>(std::sqrt(total())); }

}  // namespace lockstep::compiler
