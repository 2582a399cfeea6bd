// Tiling check: counts elements, then sweeps along the first dim for overlaps, then finds the missing box by
// subtraction.
#include "checkpoint/format/tiling.h"

#include <algorithm>
#include <numeric>

#include "checkpoint/format/damage.h"
#include "checkpoint/format/strict_json.h"

namespace lockstep::checkpoint {

namespace {
bool overlap(const Box& a, const Box& b) {
  for (size_t d = 0; d < a.offset.size(); ++d)
    if (a.offset[d] + a.size[d] <= b.offset[d] || b.offset[d] + b.size[d] <= a.offset[d]) return false;
  return true;
}
}  // namespace

// Cuts along each dim in turn: the slabs below and above `part` go to the result, and the middle slab is cut
// along the next dim. At most two boxes per dim.
std::vector<Box> subtract(const Box& from, const Box& part) {
  std::vector<Box> out;
  Box rest = from;
  for (size_t d = 0; d < rest.size.size(); ++d) {  // peel off one dim after another
    Box low = rest, high = rest;
    low.size[d] = part.offset[d] - rest.offset[d];
    high.offset[d] = part.offset[d] + part.size[d];
    high.size[d] = rest.offset[d] + rest.size[d] - high.offset[d];
    if (numel(low) > 0) out.push_back(low);
    if (numel(high) > 0) out.push_back(high);
    rest.offset[d] = part.offset[d];
    rest.size[d] = part.size[d];
  }
  return out;
}

void check_tiling(const Shape& shape, const std::vector<Box>& boxes, const std::string& where) {
  // The counts are summed without overflow: a box may not hold more than the elements that are left.
  int64_t total = strict::elements(shape, where), covered = 0;
  for (const Box& box : boxes) {
    if (box.offset.size() != shape.size() || box.size.size() != shape.size())
      throw DamagedError(str(where, ": a box has ", box.offset.size(), " offsets and ", box.size.size(),
                             " sizes, the tensor ", shape.size(), " dims"));
    for (size_t d = 0; d < shape.size(); ++d)
      if (box.offset[d] < 0 || box.size[d] < 0 || box.offset[d] > shape[d] ||
          box.size[d] > shape[d] - box.offset[d])
        throw DamagedError(str(where, ": a box at offset ", box.offset, " of size ", box.size,
                               " leaves the tensor of shape ", shape));
    int64_t n = numel(box);
    if (n == 0 && total > 0) throw DamagedError(str(where, ": box ", text(box), " holds no element"));
    if (n > total - covered)
      throw DamagedError(str(where, ": boxes overlap: with ", text(box), " they hold more than the tensor's ",
                             total, " elements"));
    covered += n;
  }
  if (total == 0) {
    if (boxes.size() > 1)
      throw DamagedError(str(where, ": ", boxes.size(), " boxes for a tensor without elements"));
    return;
  }
  // Sorted by their first row, a box can overlap only those that begin before its own end.
  std::vector<size_t> order(boxes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  auto first = [&](size_t i) { return shape.empty() ? int64_t{0} : boxes[i].offset[0]; };
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return first(a) < first(b); });
  for (size_t i = 0; i < order.size(); ++i) {
    const Box& a = boxes[order[i]];
    int64_t end = shape.empty() ? 1 : a.offset[0] + a.size[0];
    for (size_t j = i + 1; j < order.size() && first(order[j]) < end; ++j)
      if (overlap(a, boxes[order[j]]))
        throw DamagedError(str(where, ": boxes ", text(a), " and ", text(boxes[order[j]]), " overlap"));
  }
  if (covered == total) return;
  // Without overlaps, equal counts prove full cover. Otherwise subtract every box from the whole to name a
  // gap.
  std::vector<Box> missing{whole(shape)};
  for (const Box& box : boxes) {
    std::vector<Box> still;
    for (const Box& gap : missing) {
      auto common = intersect(gap, box);
      if (!common)
        still.push_back(gap);
      else
        for (Box& left : subtract(gap, *common)) still.push_back(std::move(left));
    }
    missing = std::move(still);
  }
  throw DamagedError(
      str(where, ": boxes hold ", covered, " of ", total, " elements; ", text(missing.at(0)), " is missing"));
}

}  // namespace lockstep::checkpoint
