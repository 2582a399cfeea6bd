// Lanes: which micro-batches a rank runs, and which partial sums it is left with. Pure arithmetic.
//
// M micro-batches form L lanes of M / L consecutive ones. Lanes are leaves of a binary counter: pushed in order, two partial sums of equal size
// merge (left + right) as soon as both exist, and what is left at the end merges from the smallest to the largest. The result is a function of
// M, L and the leaves; which rank pushed what plays no part, because a rank's counter is left with maximal aligned blocks, and pushing every
// rank's blocks in lane order goes on exactly where a single counter would be.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace lockstep {

// A partial sum of lanes first .. first + size - 1; size is a power of two and divides first.
struct LaneBlock {
  int64_t first = 0;
  int64_t size = 0;
  bool operator==(const LaneBlock&) const = default;
};

// The largest divisor of M that is at most 16. A function of M alone: the number of lanes decides bits, so it may not follow the rank count.
int64_t default_lanes(int64_t micro_batches);

struct LanePlan {
  int64_t micro_batches = 1;  // M
  int64_t lanes = 1;          // L, a divisor of M: UserError from check()
  int ranks = 1;
  int rank = 0;

  void check() const;
  int64_t per_lane() const { return micro_batches / lanes; }
  std::pair<int64_t, int64_t> lane_range(int rank) const;         // {first, count}: contiguous whole lanes, balanced; count may be 0
  std::pair<int64_t, int64_t> micro_batch_range(int rank) const;  // {first, count}
  std::vector<LaneBlock> blocks(int rank) const;                  // what remains in the rank's counter, in lane order
  int64_t most_partials() const;                                  // the most that the counter of any rank holds at a time
};

// The blocks that a counter holds after pushing lanes [first, first + count).
std::vector<LaneBlock> aligned_blocks(int64_t first, int64_t count);

}  // namespace lockstep
