// How a tensor starts: a rule for each element of the whole, keyed by (seed, FQN, element), so that every
// mesh starts with the same values. As torch.nn.init, with other random numbers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "core/mesh/array.h"
#include "core/types/number.h"

namespace lockstep {

// Which elements of a weight [out, in, places...] feed one another: in places inputs of an output, out places
// outputs of an input, or the mean of both. `none`: the deviation is given as it is.
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
  double std = 0;  // normal kinds: the deviation. With a fan: times 1 / sqrt(fan), of a uniform one, too
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
// UserError, as for random numbers of integers, where the dtype does not hold it.
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
// Gains that keep the variance of activations: 1 of none and of sigmoid, 5/3 of tanh, sqrt(2) of relu, 3/4 of
// selu, and that of leaky_relu with a slope. As calculate_gain.
inline constexpr double kTanhGain = 5.0 / 3, kReluGain = 1.41421356237309504880, kSeluGain = 0.75;
double leaky_relu_gain(double slope);
// Deviation gain sqrt(2 / (fan in + fan out)): Glorot and Bengio, 2010. Of a weight of 2 dims or more.
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
// 1 where a convolution [out, in / groups, places...] hands its input on, else 0.
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

// What is wrong with an initial value of a tensor of this shape and dtype; "" for nothing.
std::string misfit(const Init& init, const Shape& shape, DType dtype);

// Writes this rank's elements of `array`, which is allocated. Element i (row-major in the global shape) of a
// normal tensor is float(std * philox::normal(seed, hash64(fqn), 0, i)), then rounded to the array's dtype,
// of a uniform one float(lo + (hi - lo) philox::uniform(its bits)), and where that rounds to hi the largest
// number of the dtype below; rank and layout play no part.
void fill(Array& array, const Init& init, uint64_t seed);

}  // namespace lockstep
