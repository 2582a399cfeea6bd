// Initial values: a rule for each element of the whole tensor, keyed by (seed, FQN, element), so that every
// mesh starts with the same values. As torch.nn.init, with other random numbers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "core/mesh/array.h"
#include "core/types/number.h"

namespace lockstep {

// The fan of a weight [out, in, places...] scales its deviation. in: the inputs of an output (in times
// places); out: the outputs of an input; mean: the mean of both; none: the deviation is used as given.
enum class Fan { none, in, out, mean };

struct Init {
  enum class Kind {
    zeros,
    ones,
    normal,
    constant,
    uniform,
    truncated_normal,
    orthogonal,
    eye,
    dirac,
    sparse,
    elements
  };
  using Elements = std::function<double(int64_t)>;
  Kind kind = Kind::zeros;
  double std = 0;  // the deviation of normal kinds; with a fan, of any kind, times 1 / sqrt(fan)
  double mean = 0;
  double lo = 0, hi = 0;  // uniform without a fan: [lo, hi); truncated_normal: the bounds
  Fan fan = Fan::none;
  // orthogonal: the gain; dirac: the number of groups; sparse: the share of zeros
  double factor = 1;
  std::shared_ptr<const Elements> element = {};
  Number number = {};  // constant: the value
  bool operator==(const Init&) const = default;
};

namespace init {
inline Init zeros() { return {}; }
inline Init ones() { return {Init::Kind::ones}; }
// The same number everywhere. UserError when the dtype cannot represent it; random values of an integer dtype
// are refused in the same way.
inline Init constant(Number value) { return {.kind = Init::Kind::constant, .number = value}; }
// Normal with this deviation and mean.
inline Init normal(double std, double mean = 0) { return {Init::Kind::normal, std, mean}; }
// Uniform in [lo, hi).
inline Init uniform(double lo = 0, double hi = 1) {
  return {.kind = Init::Kind::uniform, .lo = lo, .hi = hi};
}
// Normal, limited to [lo, hi] by the inverse of its distribution. As trunc_normal_.
inline Init truncated_normal(double std = 1, double mean = 0, double lo = -2, double hi = 2) {
  return {Init::Kind::truncated_normal, std, mean, lo, hi};
}
// Gains that keep the variance of activations: 1 for none and for sigmoid, 5/3 for tanh, sqrt(2) for relu,
// 3/4 for selu, and a function of the slope for leaky_relu. As calculate_gain.
inline constexpr double kTanhGain = 5.0 / 3, kReluGain = 1.41421356237309504880, kSeluGain = 0.75;
double leaky_relu_gain(double slope);
// Deviation gain sqrt(2 / (fan in + fan out)): Glorot and Bengio, 2010. The weight has 2 or more dims.
Init xavier_normal(double gain = 1);
Init xavier_uniform(double gain = 1);
// Deviation gain / sqrt(fan): He et al., arXiv 1502.01852. PyTorch's Linear and Conv start as
// kaiming_uniform(leaky_relu_gain(sqrt(5))).
Init kaiming_normal(double gain = kReluGain, Fan fan = Fan::in);
Init kaiming_uniform(double gain = kReluGain, Fan fan = Fan::in);
// Rows, or columns where there are fewer, of the weight as [dim 0, the rest] are orthonormal, times the gain:
// Saxe et al., arXiv 1312.6120. Every rank makes the whole matrix, in f64.
inline Init orthogonal(double gain = 1) { return {.kind = Init::Kind::orthogonal, .factor = gain}; }
// 1 on the diagonal of a matrix, else 0.
inline Init eye() { return {.kind = Init::Kind::eye}; }
// A convolution [out, in / groups, places...] that passes its input on: 1 at those elements, else 0.
inline Init dirac(int64_t groups = 1) {
  return {.kind = Init::Kind::dirac, .factor = static_cast<double>(groups)};
}
// In each column of a matrix this share of the elements, rounded up, is 0, chosen at random; the others are
// normal with this deviation: Martens, 2010. Every rank chooses for the whole matrix. As sparse_.
inline Init sparse(double share, double std = 0.01) {
  return {.kind = Init::Kind::sparse, .std = std, .factor = share};
}
// Element i, row-major in the global shape, is element(i), rounded to the dtype. Called from several threads.
inline Init elements(Init::Elements element) {
  return {.kind = Init::Kind::elements,
          .element = std::make_shared<const Init::Elements>(std::move(element))};
}
}  // namespace init

// The error of an initial value for a tensor of this shape and dtype; "" if there is none.
std::string misfit(const Init& init, const Shape& shape, DType dtype);

// Writes this rank's elements of `array`, which must be allocated. Element i (row-major in the global shape)
// of a normal tensor is float(std * philox::normal(seed, hash64(fqn), 0, i)), rounded to the array's dtype.
// Element i of a uniform one is float(lo + (hi - lo) philox::uniform(its bits)), or, if that rounds to hi,
// the next smaller number of the dtype. Rank and layout have no influence.
void fill(Array& array, const Init& init, uint64_t seed);

}  // namespace lockstep
