// Two standard normals from two random words by Box and Muller (1958). The elementary functions are our own
// polynomials. They use only additions, products, quotients and roots, which IEEE 754 rounds equally on every
// machine and in vector registers. The numbers depend on no library's log.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace lockstep::philox {

struct NormalPair {
  float first, second;
};

// ln of a normal number u > 0 with |exponent| < 64: u = 2^e m, m in [sqrt(1/2), sqrt(2)), ln m = 2 atanh((m -
// 1) / (m + 1)). Its error is below 2 units in the last place.
[[gnu::always_inline]] inline double ln(double u) {
  const auto bits = std::bit_cast<uint64_t>(u);
  const auto e = static_cast<int64_t>(bits - 0x3FE6A09E667F3BCDull) >> 52;
  const double m = std::bit_cast<double>(bits - (static_cast<uint64_t>(e) << 52));
  // Converts e to double: adding a whole number below 2^51 to the bits of 1.5 * 2^52 adds that number to its
  // value.
  const double whole = std::bit_cast<double>(0x4338000000000000ull + static_cast<uint64_t>(e)) - 0x1.8p52;
  const double s = (m - 1) / (m + 1), z = s * s;
  double p = 1.0 / 23;
  for (int odd = 21; odd > 1; odd -= 2) p = p * z + 1.0 / odd;
  return whole * 0x1.62e42fefa39efp-1 + (2 * s + 2 * s * (z * p));
}

// Sine and cosine of x in [-pi/4, pi/4], by their series.
[[gnu::always_inline]] inline void sine_and_cosine(double x, double& sine, double& cosine) {
  constexpr double kOverFactorial[] = {1.0,
                                       1.0,
                                       1.0 / 2,
                                       1.0 / 6,
                                       1.0 / 24,
                                       1.0 / 120,
                                       1.0 / 720,
                                       1.0 / 5040,
                                       1.0 / 40320,
                                       1.0 / 362880,
                                       1.0 / 3628800,
                                       1.0 / 39916800,
                                       1 / 479001600.,
                                       1 / 6227020800.,
                                       1 / 87178291200.,
                                       1 / 1307674368000.,
                                       1 / 20922789888000.,
                                       1 / 355687428096000.};
  const double z = x * x;
  double s = kOverFactorial[17], c = kOverFactorial[16];
  for (int n = 15; n > 1; n -= 2) {
    s = z * s + (n % 4 == 1 ? kOverFactorial[n] : -kOverFactorial[n]);
    c = z * c + (n % 4 == 1 ? kOverFactorial[n - 1] : -kOverFactorial[n - 1]);
  }
  sine = x + x * (z * s);
  cosine = 1 + z * c;
}

// sqrt(-2 ln u) times cosine and sine of 2 pi v, with u, v = (word + 1/2) / 2^32.
[[gnu::always_inline]] inline NormalPair normal_pair(uint32_t first, uint32_t second) {
  const double u = (static_cast<double>(first) + 0.5) * 0x1p-32;
  const double v = (static_cast<double>(second) + 0.5) * 0x1p-32;
  const double r = std::sqrt(-2.0 * ln(u));
  const auto quarters = static_cast<int32_t>((second >> 29) + 1) >> 1;  // the nearest, 0 to 4
  double sine = 0, cosine = 0;
  sine_and_cosine(6.283185307179586476925 * (v - quarters * 0.25), sine, cosine);
  const int turn = quarters & 3;
  const double along = turn & 1 ? sine : cosine, across = turn & 1 ? cosine : sine;
  return {static_cast<float>(r * (turn == 1 || turn == 2 ? -along : along)),
          static_cast<float>(r * (turn >= 2 ? -across : across))};
}

}  // namespace lockstep::philox
