// Lanes: which rank runs which micro-batch, and in which order gradients are added, whatever the number of ranks.
//
// M micro-batches form L lanes of M / L consecutive ones. A lane is folded left to right; lanes are combined by a binary counter: leaves
// are pushed in lane order, two partials of equal size merge (left + right) as soon as both exist, and what is left at the end merges from
// the smallest to the largest. This is the padded binary tree in which an absent leaf is skipped. A rank that holds lanes [a, b) forms the
// subtrees of that tree that lie in [a, b); pushing every rank's subtrees in lane order into the same counter continues the tree. So the
// order of additions is a function of M and L alone.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace lockstep {

// The complete subtree over lanes [first, first + size): size is a power of two that divides first.
struct LaneBlock {
  int64_t first = 0;
  int64_t size = 1;
  bool operator==(const LaneBlock&) const = default;
};

// The binary counter: the subtrees that exist and wait for their right neighbour, in lane order. It holds no values: the caller keeps one
// per block and adds as push says.
class LaneCounter {
 public:
  // Adds a block that starts where the last one ended (the first may start anywhere). Returns k: the incoming partial is merged with the
  // topmost one, the result with the one below, and so on, k times. InternalError when lanes are skipped or the block is no subtree.
  int push(LaneBlock block);
  const std::vector<LaneBlock>& blocks() const { return blocks_; }
  // Merges that end the sum: the topmost two, again and again until one is left.
  int remaining() const { return blocks_.empty() ? 0 : static_cast<int>(blocks_.size()) - 1; }
  void clear() { blocks_.clear(); }

 private:
  std::vector<LaneBlock> blocks_;
};

// The largest divisor of M that is at most 16: L where batch.lanes is not set. It depends on M alone, since another L is another order of
// additions: a cluster of more than 16 data ranks sets batch.lanes (more ranks than lanes work, but the rest is idle). For M < 1: 1.
int64_t default_lanes(int64_t micro_batches);

struct LanePlan {
  int64_t micro_batches = 1;  // M, of a step, over all ranks
  int64_t lanes = 1;          // L
  int ranks = 1;              // data ranks
  int rank = 0;               // this one, in data_rank order

  // UserError unless M >= 1 and 1 <= L divides M; InternalError unless 0 <= rank < ranks.
  void check() const;
  int64_t per_lane() const { return micro_batches / lanes; }

  // {first, count}: contiguous whole lanes, sizes differ by at most 1, the larger ones first; count 0 for ranks beyond the lanes.
  std::pair<int64_t, int64_t> lane_range(int of_rank) const;
  // {first, count} of the micro-batches of these lanes.
  std::pair<int64_t, int64_t> micro_batch_range(int of_rank) const;
  // What a rank's counter holds after its lanes: the maximal subtrees in its range, in lane order. Empty for a rank without lanes.
  std::vector<LaneBlock> blocks(int of_rank) const;
};

}  // namespace lockstep
