// Lanes: which rank runs which micro-batch, and in which order gradients are added, whatever the number of
// ranks.
//
// M micro-batches form L lanes of M / L consecutive ones. A lane is folded left to right; lanes are combined
// by a binary counter: leaves are pushed in lane order, two partials of equal size merge (left + right) as
// soon as both exist, and what is left at the end merges from the smallest to the largest. This is the padded
// binary tree in which an absent leaf is skipped. A rank that holds lanes [a, b) forms the subtrees of that
// tree that lie in [a, b); pushing every rank's subtrees in lane order into the same counter continues the
// tree. So the order of additions is a function of M and L alone.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "core/mesh/mesh.h"

namespace lockstep::compiler {

// The complete subtree over lanes [first, first + size): size is a power of two that divides first.
struct LaneBlock {
  int64_t first = 0;
  int64_t size = 1;
  bool operator==(const LaneBlock&) const = default;
};

// The binary counter: the subtrees that exist and wait for their right neighbour, in lane order. It holds no
// values: the caller keeps one per block and adds as push says.
class LaneCounter {
 public:
  // Adds a block that starts where the last one ended (the first may start anywhere). Returns k: the incoming
  // partial is merged with the topmost one, the result with the one below, and so on, k times. InternalError
  // when lanes are skipped or the block is no subtree.
  int push(LaneBlock block);
  const std::vector<LaneBlock>& blocks() const { return blocks_; }
  // Merges that end the sum: the topmost two, again and again until one is left.
  int remaining() const { return blocks_.empty() ? 0 : static_cast<int>(blocks_.size()) - 1; }
  void clear() { blocks_.clear(); }

 private:
  std::vector<LaneBlock> blocks_;
};

// The largest divisor of M that is at most 16: L where batch.lanes is not set. It depends on M alone, since
// another L is another order of additions: a cluster of more than 16 data ranks sets batch.lanes (more ranks
// than lanes work, but the rest is idle, unless each rank has one micro-batch). For M < 1: 1.
int64_t default_lanes(int64_t micro_batches);

// Which rank runs which micro-batch. No bit depends on it.
enum class LaneOrder {
  contiguous,   // each rank whole lanes, one exchange per step
  interleaved,  // round j runs micro-batches jN .. jN + N - 1, an exchange per round
};

// Over dp_shard: ZeRO 2 and 3.
bool splits_gradients(const Mesh& mesh, int zero);

// Rounds where gradients lie split, and, where numerics are invariant, where one round is the step: a
// micro-batch on each data rank, whose gradients travel as they are instead of as sums in fp32. Whole lanes
// elsewhere.
LaneOrder lane_order(bool splits_gradients, int64_t micro_batches, int64_t ranks, bool invariant);
LaneOrder lane_order(const Mesh& mesh, int zero, int64_t micro_batches, bool invariant);

struct LanePlan {
  int64_t micro_batches = 1;  // M, of a step, over all ranks
  int64_t lanes = 1;          // L
  int ranks = 1;              // data ranks
  int rank = 0;               // this one, in data_rank order
  LaneOrder order = LaneOrder::contiguous;

  // UserError unless M >= 1 and 1 <= L divides M; InternalError unless 0 <= rank < ranks.
  void check() const;
  int64_t per_lane() const { return micro_batches / lanes; }
  // One micro-batch is all there is: its gradients are the sums.
  bool is_one() const { return micro_batches == 1 && ranks == 1; }

  // {first, count}: contiguous whole lanes, sizes differ by at most 1, the larger ones first; count 0 for
  // ranks beyond the lanes.
  std::pair<int64_t, int64_t> lane_range(int of_rank) const;
  // {first, count} of the micro-batches of these lanes.
  std::pair<int64_t, int64_t> micro_batch_range(int of_rank) const;
  // In either order: how many micro-batches the rank has slots for, and which one slot `slot` runs; -1: an
  // idle slot, whose gradients are not inserted. Contiguous: ranks may have different numbers of slots, none
  // idle. Interleaved: ceil(M / N) slots on every rank.
  int64_t slots(int of_rank) const;
  int64_t micro_batch(int of_rank, int64_t slot) const;
  // What a rank's counter holds after its lanes: the maximal subtrees in its range, in lane order. Empty for
  // a rank without lanes.
  std::vector<LaneBlock> blocks(int of_rank) const;
};

// Whether gradients are exchanged inside hosts first, then across, where a host has `seats` neighbouring data
// ranks: in invariant numerics, on several hosts of several; in rounds, where a lane's micro-batches are on
// one host.
bool exchanges_by_host(const LanePlan& plan, bool invariant, int seats);

// Which rows of dim 0 each data rank owns: balanced over dp_shard, and what is there balanced over
// dp_replicate, as the moments of a parameter lie (layout_for).
struct RowOwners {
  int shard = 1, replicate = 1;
  bool shard_fastest = true;  // dp_shard stands behind dp_replicate in the mesh: data rank = replicate
                              // coordinate * shard + shard coordinate

  static RowOwners alone(int ranks) { return {1, ranks, true}; }  // one data dim
  static RowOwners of(const Mesh& mesh);
  int ranks() const { return shard * replicate; }
  std::pair<int64_t, int64_t> rows(int64_t total, int data_rank) const;  // {first, count}
};

}  // namespace lockstep::compiler
