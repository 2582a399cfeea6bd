// Boxes: intersection and contiguous runs.
#include "core/types/box.h"

#include <algorithm>

#include "core/base/error.h"

namespace lockstep {

Box whole(const Shape& shape) { return {std::vector<int64_t>(shape.size(), 0), shape}; }
int64_t numel(const Box& box) { return numel(box.size); }

std::optional<Box> intersect(const Box& a, const Box& b) {
  LS_CHECK(a.offset.size() == b.offset.size(), "boxes of ", a.offset.size(), " and ", b.offset.size(),
           " dims");
  Box out;
  for (size_t i = 0; i < a.offset.size(); ++i) {
    int64_t lo = std::max(a.offset[i], b.offset[i]),
            hi = std::min(a.offset[i] + a.size[i], b.offset[i] + b.size[i]);
    if (hi <= lo) return std::nullopt;
    out.offset.push_back(lo);
    out.size.push_back(hi - lo);
  }
  return out;
}

std::string text(const Box& box) {
  std::string out = "[";
  for (size_t i = 0; i < box.offset.size(); ++i)
    out += str(i ? "," : "", box.offset[i], ":", box.offset[i] + box.size[i]);
  return out + "]";
}

void for_each_run(const Box& part, const Box& from, const Box& to,
                  const std::function<void(int64_t, int64_t, int64_t)>& run) {
  size_t rank = part.size.size();
  if (numel(part) == 0) return;
  auto from_strides = row_major_strides(from.size), to_strides = row_major_strides(to.size);
  // Trailing dims that are whole in both boxes join one run.
  size_t inner = rank;
  int64_t count = 1;
  while (inner > 0) {
    --inner;
    count *= part.size[inner];
    if (part.size[inner] != from.size[inner] || part.size[inner] != to.size[inner]) break;
  }
  std::vector<int64_t> index(inner, 0);
  while (true) {
    int64_t a = 0, b = 0;
    for (size_t i = 0; i < rank; ++i) {
      int64_t at = part.offset[i] + (i < inner ? index[i] : 0);
      a += (at - from.offset[i]) * from_strides[i];
      b += (at - to.offset[i]) * to_strides[i];
    }
    run(a, b, count);
    size_t i = inner;
    while (i > 0 && ++index[i - 1] == part.size[i - 1]) index[--i] = 0;
    if (i == 0) return;
  }
}

}  // namespace lockstep
