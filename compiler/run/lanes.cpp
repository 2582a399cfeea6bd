// Lane arithmetic.
#include "compiler/run/lanes.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/mesh/layout.h"

namespace lockstep {

int64_t default_lanes(int64_t micro_batches) {
  int64_t best = 1;
  for (int64_t lanes = 1; lanes <= 16; ++lanes)
    if (micro_batches % lanes == 0) best = lanes;
  return best;
}

void LanePlan::check() const {
  if (micro_batches < 1 || lanes < 1 || micro_batches % lanes)
    throw UserError(str("batch.lanes ", lanes, " does not divide the ", micro_batches, " micro-batches; choose a divisor"));
}
std::pair<int64_t, int64_t> LanePlan::lane_range(int of) const { return balanced(lanes, ranks, of); }
std::pair<int64_t, int64_t> LanePlan::micro_batch_range(int of) const {
  auto [first, count] = lane_range(of);
  return {first * per_lane(), count * per_lane()};
}
std::vector<LaneBlock> LanePlan::blocks(int of) const {
  auto [first, count] = lane_range(of);
  return aligned_blocks(first, count);
}

std::vector<LaneBlock> aligned_blocks(int64_t first, int64_t count) {
  std::vector<LaneBlock> blocks;
  for (int64_t lane = first; lane < first + count; ++lane) {
    blocks.push_back({lane, 1});
    while (blocks.size() > 1) {
      LaneBlock &left = blocks[blocks.size() - 2], right = blocks.back();
      if (left.size != right.size || left.first % (2 * left.size)) break;
      left.size *= 2;
      blocks.pop_back();
    }
  }
  return blocks;
}

int64_t LanePlan::most_partials() const {
  int64_t most = 0;
  for (int r = 0; r < ranks; ++r) {
    auto [first, count] = lane_range(r);
    for (int64_t n = 1; n <= count; ++n) most = std::max(most, static_cast<int64_t>(aligned_blocks(first, n).size()) + 1);
  }
  return most;
}

}  // namespace lockstep
