// Blocks: cuts a box along the first dim that has more than one row.
#include "checkpoint/plan/blocks.h"

#include <algorithm>

#include "core/base/error.h"

namespace lockstep::checkpoint {

namespace {
// Cutting along the first dim with several rows keeps each block contiguous. If a single row exceeds the
// limit, the recursion cuts along the next dim.
void cut(Box box, int64_t at, int64_t limit, const std::function<void(const Box&, int64_t)>& visit) {
  int64_t n = numel(box);
  if (n <= limit) return visit(box, at);
  size_t d = 0;
  while (box.size[d] == 1) ++d;
  int64_t row = n / box.size[d], rows = std::max<int64_t>(1, limit / row);
  for (int64_t i = 0, size = box.size[d], offset = box.offset[d]; i < size; i += rows) {
    box.offset[d] = offset + i;
    box.size[d] = std::min(rows, size - i);
    cut(box, at + i * row, limit, visit);
  }
}
}  // namespace

void for_each_block(const Box& box, int64_t limit, const std::function<void(const Box&, int64_t)>& visit) {
  LS_CHECK(limit >= 1);
  if (numel(box) > 0) cut(box, 0, limit, visit);
}

int64_t contiguous_at(const Box& part, const Box& frame) {
  auto strides = row_major_strides(frame.size);
  int64_t at = 0;
  bool within = false;  // an outer dim already spans several rows: all inner dims must be whole
  for (size_t d = 0; d < part.size.size(); ++d) {
    int64_t from = part.offset[d] - frame.offset[d];
    if (from < 0 || from + part.size[d] > frame.size[d]) return -1;
    if (within && part.size[d] != frame.size[d]) return -1;
    within = within || part.size[d] > 1;
    at += from * strides[d];
  }
  return at;
}

}  // namespace lockstep::checkpoint
