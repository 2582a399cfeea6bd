// Content: the hash of a state's elements and the non-finite ones among them, computed where the bytes are
// stored.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "core/mesh/array.h"

namespace lockstep {

// A box of a tensor and its bytes, dense and row-major in `frame`, which contains the box.
struct Holding {
  std::string fqn;
  DType dtype = DType::f32;
  Shape shape;  // of the whole tensor
  Box box, frame;
  const std::byte* data = nullptr;
  Device* device = nullptr;  // whose memory holds the bytes, if the host does not address it; else null
  int64_t bytes() const { return numel(box) * static_cast<int64_t>(size_of(dtype)); }
};
// This rank's elements, from the most recently written copies.
std::vector<Holding> holdings(const std::vector<const Array*>& arrays);

struct Asked {
  bool hash = false, finite = false;
};
struct Content {
  StateHash hash;
  int64_t nonfinite = 0;                                // elements
  int64_t first = std::numeric_limits<int64_t>::max();  // the lowest index, if the content is of one tensor
};
// The content of all holdings together. The caller's threads read host memory. A device sums its own memory
// (ContentSums), or its bytes are copied through one block of kContentBlock in staging memory.
Content content_of(const std::vector<Holding>& all, Asked asked);
inline constexpr int64_t kContentBlock = int64_t{4} << 20;  // bytes

// How many of `count` elements in host memory are NaN or infinite, and the index of the first; integers have
// none.
struct NonFiniteCount {
  int64_t count = 0, first = -1;
};
NonFiniteCount count_nonfinite(DType dtype, const std::byte* data, int64_t count);
uint64_t exponent_bits(DType dtype);  // all set in NaN and infinity, and in nothing else; 0 for integers

}  // namespace lockstep
