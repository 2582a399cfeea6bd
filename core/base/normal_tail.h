// The normal distribution between two bounds on one side of its mean, computed without cancellation.
#pragma once

#include <vector>

namespace lockstep {

// The standard normal distribution on [from, to], 0 <= from < to <= infinity. A sample is from + past(s) with
// s = -log(1 - u inside()) and u uniform in [0, 1). e^-s is the probability of the tail beyond the sample
// over that of the tail beyond `from`.
class NormalTail {
 public:
  NormalTail(double from, double to);
  double inside() const { return inside_; }  // the share of [from, to] in [from, infinity)
  double most() const { return most_; }      // the largest s
  double past(double s) const;

  // past(s) / s in single precision for 0 <= s <= most: a Chebyshev series in 2 (z - low) / (high - low) - 1.
  // Here z is s, or, with a root, sqrt(s + shift).
  struct Series {
    bool root = false;
    double shift = 0, low = 0, high = 0;
    std::vector<double> coefficients;
  };
  Series series() const;

 private:
  double rarer(double d) const;  // the s of from + d
  double from_, to_, inside_, most_;
};

}  // namespace lockstep
