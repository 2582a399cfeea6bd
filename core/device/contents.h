// ContentSums: what a device says of bytes in its memory without moving them: the state hash of elements, and
// which of them are not finite.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep {

// Elements that follow each other, in the device's memory and in the whole tensor that they are of.
struct ContentRun {
  const std::byte* data = nullptr;
  int64_t count = 0;
  uint64_t index = 0;     // of the first one, its row-major place in the whole tensor
  uint64_t key = 0;       // hash_key() of the tensor
  uint64_t exponent = 0;  // bits that are all set in what is not finite; 0: all are finite
  size_t element = 4;     // bytes of each: 1, 2, 4 or 8
};

struct ContentSum {
  uint64_t lo = 0, hi = 0;        // of StateHash
  int64_t nonfinite = 0;          // elements
  uint64_t first = ~uint64_t{0};  // the lowest place of them
};

class ContentSums {
 public:
  virtual ~ContentSums() = default;
  // Of all runs together. The device's work on the bytes is over; blocks until the sum is known. Thread-safe.
  virtual ContentSum sum(const std::vector<ContentRun>& runs) = 0;
};

}  // namespace lockstep
