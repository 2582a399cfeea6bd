// How a tensor starts: zeros, ones, or normal by Philox keyed by (seed, FQN, element), so that every mesh
// starts with the same values.
#pragma once

#include <cstdint>

#include "core/mesh/array.h"

namespace lockstep {

struct Init {
  enum class Kind { zeros, ones, normal };
  Kind kind = Kind::zeros;
  double std = 0;  // normal: standard deviation, mean 0
  bool operator==(const Init&) const = default;
};

namespace init {
inline Init zeros() { return {}; }
inline Init ones() { return {Init::Kind::ones, 0}; }
inline Init normal(double std) { return {Init::Kind::normal, std}; }
}  // namespace init

// Writes this rank's elements of `array`, which is allocated. Element i (row-major in the global shape) of a
// normal tensor is float(std * philox::normal(seed, hash64(fqn), 0, i)), then rounded to the array's dtype;
// rank and layout play no part.
void fill(Array& array, const Init& init, uint64_t seed);

}  // namespace lockstep
