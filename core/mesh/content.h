// Content: the hash of a state's elements, and which of them are not finite, made where their bytes lie.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "core/mesh/array.h"

namespace lockstep {

// A box of a tensor, and its bytes: dense and row-major in `frame`, which holds the box.
struct Holding {
  std::string fqn;
  DType dtype = DType::f32;
  Shape shape;  // of the whole tensor
  Box box, frame;
  const std::byte* data = nullptr;
  Device* device = nullptr;  // in whose memory they lie, where the host does not address it
  int64_t bytes() const { return numel(box) * static_cast<int64_t>(size_of(dtype)); }
};
// This rank's elements, as they were last written.
std::vector<Holding> holdings(const std::vector<const Array*>& arrays);

struct Asked {
  bool hash = false, finite = false;
};
struct Content {
  StateHash hash;
  int64_t nonfinite = 0;                                // elements
  int64_t first = std::numeric_limits<int64_t>::max();  // of one tensor: the lowest place of them
};
// Of all together. In host memory on the threads of the caller; a device sums what it holds itself
// (ContentSums), or its bytes pass through one block of kContentBlock in staging memory.
Content content_of(const std::vector<Holding>& all, Asked asked);
inline constexpr int64_t kContentBlock = int64_t{4} << 20;  // bytes

// How many of `count` elements in host memory are NaN or infinite, and the first of them: none of integers.
struct NonFiniteCount {
  int64_t count = 0, first = -1;
};
NonFiniteCount count_nonfinite(DType dtype, const std::byte* data, int64_t count);
uint64_t exponent_bits(DType dtype);  // all set in NaN and infinity, and in nothing else; 0 for integers

}  // namespace lockstep
