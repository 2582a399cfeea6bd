// Draws: a device generates random numbers in its own memory, with the bits of core/base/philox.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace lockstep {

// Element i of a tensor is float(base + scale * z), computed in double. z is a standard normal of (seed,
// stream, step 0, i), or a uniform number in [0, 1) from its bits. The result is limited to `most`, since
// rounding to float could exceed it.
struct Draw {
  enum class Kind { normal, uniform };
  Kind kind = Kind::normal;
  uint64_t seed = 0, stream = 0;
  double base = 0, scale = 1;
  float most = std::numeric_limits<float>::infinity();
};
// Elements that are contiguous both in the device's memory and in the whole tensor.
struct DrawRun {
  float* data = nullptr;
  int64_t count = 0;
  uint64_t index = 0;  // row-major index of the first one in the whole tensor
};

class Draws {
 public:
  virtual ~Draws() = default;
  // Writes all runs; blocks until they are written. Thread-safe.
  virtual void draw(const Draw& draw, const std::vector<DrawRun>& runs) = 0;
};

}  // namespace lockstep
