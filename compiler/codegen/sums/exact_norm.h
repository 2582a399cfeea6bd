// An exact sum of non-negative doubles, so that the order of rows and ranks cannot change it: a fixed-point
// integer in eight int64 words.
#pragma once

#include <cstdint>
#include <span>

namespace lockstep::compiler {

// Words 0 to 6 are digits in base 2^40, lowest first. The integer counts units of 2^-150, so the range is
// [2^-150, 2^130): gradient norms from 2.7e-23 to 3.6e19, as wide as squares in fp32. Word 7 counts
// non-finite addends: inf in bits 0 to 31, NaN above. After normalise(), words of up to 2^20 ranks may be
// added as int64 (all_reduce sum) without overflow.
//   - below the range: each addend is truncated to a multiple of 2^-150, by its own value only;
//   - above: an addend or a total of 2^130 or more makes the total +inf, in any order;
//   - inf makes the total +inf, NaN makes it NaN.
struct Limbs {
  int64_t words[8] = {};

  // Adds one value: finite and >= 0, +inf or NaN. InternalError for a negative value.
  void add(double value);
  void add(std::span<const double> values);
  // Adds another sum, normalised or not.
  void add(const Limbs& other);
  // Carries, so that digits are below 2^40 and the flags of word 7 are 0 or 1. Does not change the value.
  // Required before words of ranks are added.
  void normalise();
  // The sum, rounded once to the nearest double (ties to even).
  double total() const;
  // sqrt(total()), rounded to float.
  float norm() const;
  bool operator==(const Limbs&) const = default;  // compares words: normalise both sums first
};

}  // namespace lockstep::compiler
