// Draws: random numbers that a device makes in its own memory, with the bits of core/base/philox.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace lockstep {

// What element i of a tensor is, as float: base + scale * (a standard normal of (seed, stream, step 0, i), or
// a uniform number of [0, 1) by its bits), in double; at most `most`, which rounding to float would pass.
struct Draw {
  enum class Kind { normal, uniform };
  Kind kind = Kind::normal;
  uint64_t seed = 0, stream = 0;
  double base = 0, scale = 1;
  float most = std::numeric_limits<float>::infinity();
};
// Elements that follow each other, in the device's memory and in the whole tensor that they are of.
struct DrawRun {
  float* data = nullptr;
  int64_t count = 0;
  uint64_t index = 0;  // of the first one, its row-major place in the whole tensor
};

class Draws {
 public:
  virtual ~Draws() = default;
  // Writes all runs; blocks until they are written. Thread-safe.
  virtual void draw(const Draw& draw, const std::vector<DrawRun>& runs) = 0;
};

}  // namespace lockstep
