// Quantiles of a tail by Newton's method on the logarithm of the tail probability, and their Chebyshev
// series.
#include "core/base/normal_tail.h"

#include <algorithm>
#include <cmath>

namespace lockstep {

namespace {
constexpr double kPi = 3.14159265358979323846, kRoot2 = 1.41421356237309504880;
constexpr double kMostOf24Bits = 17;  // -log(2^-24) is 16.6

// The tail probability beyond x over the density at x: Mills' ratio.
double ratio(double x) {
  if (x < 5) return std::sqrt(kPi / 2) * std::erfc(x / kRoot2) * std::exp(x * x / 2);
  double fraction = x;  // Laplace's continued fraction
  for (int k = 40; k > 0; --k) fraction = x + k / fraction;
  return 1 / fraction;
}
}  // namespace

NormalTail::NormalTail(double from, double to) : from_(from), to_(to) {
  const double all = std::isinf(to) ? to : rarer(to - from);
  inside_ = -std::expm1(-all);
  most_ = std::min(all, kMostOf24Bits);
}

double NormalTail::rarer(double d) const {
  return d * (from_ + d / 2) - std::log(ratio(from_ + d) / ratio(from_));
}

// The logarithm is convex, so the first Newton step overshoots and the others descend to the solution.
double NormalTail::past(double s) const {
  double d = s * ratio(from_);
  for (int step = 0; step < 100; ++step) {
    const double by = (rarer(d) - s) * ratio(from_ + d);
    d -= by;
    if (std::fabs(by) <= 1e-15 * d) break;
  }
  return std::clamp(d, 0.0, to_ - from_);
}

// Near the mean past(s) is singular at s + log(2) = 0; a series in the square root avoids it.
NormalTail::Series NormalTail::series() const {
  Series out;
  out.root = from_ < 2;
  if (out.root) out.shift = -std::log(std::erfc(from_ / kRoot2) / 2);
  const auto place = [&](double s) { return out.root ? std::sqrt(s + out.shift) : s; };
  out.low = place(0), out.high = place(most_);
  constexpr int kNodes = 40;
  std::vector<double> values(kNodes);
  for (int k = 0; k < kNodes; ++k) {
    const double z = out.low + (out.high - out.low) * (1 + std::cos(kPi * (k + 0.5) / kNodes)) / 2;
    const double s = out.root ? std::max(z * z - out.shift, 1e-300) : z;
    values[k] = past(s) / s;
  }
  for (int j = 0; j < kNodes; ++j) {
    double sum = 0;
    for (int k = 0; k < kNodes; ++k) sum += values[k] * std::cos(kPi * j * (k + 0.5) / kNodes);
    out.coefficients.push_back(sum * (j == 0 ? 1.0 : 2.0) / kNodes);
  }
  const double least = std::fabs(out.coefficients[0]) * 1e-9;
  while (out.coefficients.size() > 1 && std::fabs(out.coefficients.back()) < least)
    out.coefficients.pop_back();
  return out;
}

}  // namespace lockstep
