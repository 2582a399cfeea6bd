// ContentSums: a device hashes elements in its own memory, and finds those that are not finite, without
// copying them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep {

// Elements that are contiguous both in the device's memory and in the whole tensor.
struct ContentRun {
  const std::byte* data = nullptr;
  int64_t count = 0;
  uint64_t index = 0;     // row-major index of the first one in the whole tensor
  uint64_t key = 0;       // hash_key() of the tensor
  uint64_t exponent = 0;  // bits that are all set in a value that is not finite; 0: all values are finite
  size_t element = 4;     // bytes of each: 1, 2, 4 or 8
};

struct ContentSum {
  uint64_t lo = 0, hi = 0;        // of StateHash
  int64_t nonfinite = 0;          // elements
  uint64_t first = ~uint64_t{0};  // the lowest index of a non-finite element
};

class ContentSums {
 public:
  virtual ~ContentSums() = default;
  // Returns the sum over all runs. The device's other work on the bytes must have ended; blocks until the sum
  // is known. Thread-safe.
  virtual ContentSum sum(const std::vector<ContentRun>& runs) = 0;
};

}  // namespace lockstep
