// Lanes: which rank runs which micro-batch, and the order in which gradients are added, which is the same for
// any number of ranks.
//
// M micro-batches form L lanes of M / L consecutive ones. A lane is folded left to right. Lanes are combined
// by a binary counter, which works in three steps. Leaves are pushed in lane order. Two partials of equal
// size merge (left + right) as soon as both exist. The rest merges at the end from the smallest to the
// largest. This is the padded binary tree without its absent leaves.
//
// A rank with lanes [a, b) forms the subtrees of that tree inside [a, b). Pushing every rank's subtrees in
// lane order into the same counter continues the tree. So the order of additions depends only on M and L.
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

// The binary counter: the complete subtrees that wait for their right neighbour, in lane order. It stores no
// values: the caller keeps one per block and adds as push() says.
class LaneCounter {
 public:
  // Adds a block that starts where the last one ended (the first may start anywhere). Returns k, the number
  // of merges: the new partial is merged with the topmost one, the result with the one below, and so on.
  // InternalError if lanes are skipped or the block is not a subtree.
  int push(LaneBlock block);
  const std::vector<LaneBlock>& blocks() const { return blocks_; }
  // The merges that complete the sum: the topmost two, until one is left.
  int remaining() const { return blocks_.empty() ? 0 : static_cast<int>(blocks_.size()) - 1; }
  void clear() { blocks_.clear(); }

 private:
  std::vector<LaneBlock> blocks_;
};

// The default of batch.lanes (L): the largest divisor of M that is at most 16; 1 for M < 1. It depends only
// on M, because another L is another order of additions. A cluster of more than 16 data ranks sets
// batch.lanes. More ranks than lanes work, but the surplus is idle, unless each rank has one micro-batch.
int64_t default_lanes(int64_t micro_batches);

// Which rank runs which micro-batch. Bits do not depend on it.
enum class LaneOrder {
  contiguous,   // each rank has whole lanes; one exchange per step
  interleaved,  // round j runs micro-batches jN .. jN + N - 1; one exchange per round
};

// Whether gradients are split over dp_shard: ZeRO 2 and 3.
bool splits_gradients(const Mesh& mesh, int zero);

// Interleaved (rounds) if gradients are split. Also interleaved if numerics are invariant and one round is
// the step: each data rank has one micro-batch, whose gradients then travel in their own dtype instead of as
// fp32 sums. Otherwise contiguous (whole lanes).
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
  // There is only one micro-batch: its gradients are the sums.
  bool is_one() const { return micro_batches == 1 && ranks == 1; }

  // {first, count} of the rank's lanes: contiguous, sizes differ by at most 1, the larger ones first; count 0
  // for ranks beyond the lanes.
  std::pair<int64_t, int64_t> lane_range(int of_rank) const;
  // {first, count} of the micro-batches of these lanes.
  std::pair<int64_t, int64_t> micro_batch_range(int of_rank) const;
  // In either order: how many slots for micro-batches the rank has, and which micro-batch slot `slot` runs.
  // -1: an idle slot, whose gradients are not added. Contiguous: ranks may have different numbers of slots,
  // none of them idle. Interleaved: ceil(M / N) slots on every rank.
  int64_t slots(int of_rank) const;
  int64_t micro_batch(int of_rank, int64_t slot) const;
  // The content of a rank's counter after its lanes: the maximal subtrees in its range, in lane order. Empty
  // for a rank without lanes.
  std::vector<LaneBlock> blocks(int of_rank) const;
};

// Whether gradients are exchanged inside hosts first, then across hosts; a host has `seats` neighbouring data
// ranks. True in invariant numerics on several hosts with several ranks each; in rounds only if a lane's
// micro-batches are on one host.
bool exchanges_by_host(const LanePlan& plan, bool invariant, int seats);

// Which rows of dim 0 each data rank owns. Rows are balanced over dp_shard, and each part is balanced over
// dp_replicate, like the moments of a parameter (layout_for).
struct RowOwners {
  int shard = 1, replicate = 1;
  // dp_shard comes after dp_replicate in the mesh: data rank = replicate coordinate * shard + shard
  // coordinate.
  bool shard_fastest = true;

  static RowOwners alone(int ranks) { return {1, ranks, true}; }  // one data dim
  static RowOwners of(const Mesh& mesh);
  int ranks() const { return shard * replicate; }
  std::pair<int64_t, int64_t> rows(int64_t total, int data_rank) const;  // {first, count}
};

}  // namespace lockstep::compiler
