// Boxes: offset and size per tensor dim. The arithmetic that the partitioner, redistribution and the
// checkpoint share.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "core/types/shape.h"

namespace lockstep {

struct Box {
  std::vector<int64_t> offset;
  std::vector<int64_t> size;
  bool operator==(const Box&) const = default;
};

Box whole(const Shape& shape);
int64_t numel(const Box& box);
std::optional<Box> intersect(const Box& a, const Box& b);  // nullopt when empty
std::string text(const Box& box);                          // "[0:4,8:16]"

// Calls run(from_offset, to_offset, count), in elements, for each contiguous piece of `part`. `from` and `to`
// are boxes of the same tensor, stored row-major and dense; both contain `part`.
void for_each_run(const Box& part, const Box& from, const Box& to,
                  const std::function<void(int64_t, int64_t, int64_t)>& run);

}  // namespace lockstep
