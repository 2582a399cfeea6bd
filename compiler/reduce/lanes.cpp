// Arithmetic of lanes, ranks and the binary counter.
#include "compiler/reduce/lanes.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/mesh/layout.h"

namespace lockstep::compiler {

int LaneCounter::push(LaneBlock block) {
  LS_CHECK(block.size > 0 && (block.size & (block.size - 1)) == 0 && block.first >= 0 &&
               block.first % block.size == 0,
           "lanes ", block.first, " to ", block.first + block.size, " are no subtree");
  LS_CHECK(blocks_.empty() || blocks_.back().first + blocks_.back().size == block.first, "lane ", block.first,
           " was pushed after lane ", blocks_.back().first + blocks_.back().size - 1);
  int merges = 0;
  // A right half is aligned to its size, but not to twice its size; its left half starts at a multiple of the
  // whole size.
  while (!blocks_.empty() && blocks_.back().size == block.size &&
         blocks_.back().first % (2 * block.size) == 0) {
    block = {blocks_.back().first, 2 * block.size};
    blocks_.pop_back();
    ++merges;
  }
  blocks_.push_back(block);
  return merges;
}

int64_t default_lanes(int64_t micro_batches) {
  for (int64_t lanes = std::min<int64_t>(micro_batches, 16); lanes > 1; --lanes)
    if (micro_batches % lanes == 0) return lanes;
  return 1;
}

void LanePlan::check() const {
  LS_CHECK(ranks >= 1 && rank >= 0 && rank < ranks, "rank ", rank, " of ", ranks);
  if (micro_batches < 1)
    throw UserError(
        str("a step has ", micro_batches,
            " micro-batches (batch.global / batch.micro); it needs at least 1: raise batch.global"));
  if (lanes >= 1 && micro_batches % lanes == 0) return;
  int64_t below = std::clamp<int64_t>(lanes, 1, micro_batches), above = below;
  while (micro_batches % below) --below;
  while (micro_batches % above) ++above;
  throw UserError(str("batch.lanes is ", lanes, ", which does not divide the ", micro_batches,
                      " micro-batches of a step (batch.global / batch.micro); the nearest that does is ",
                      below, above == below ? "" : str(" or ", above)));
}

std::pair<int64_t, int64_t> LanePlan::lane_range(int of_rank) const {
  return balanced(lanes, ranks, of_rank);
}

std::pair<int64_t, int64_t> LanePlan::micro_batch_range(int of_rank) const {
  auto [first, count] = lane_range(of_rank);
  return {first * per_lane(), count * per_lane()};
}

int64_t LanePlan::slots(int of_rank) const {
  return order == LaneOrder::contiguous ? micro_batch_range(of_rank).second
                                        : (micro_batches + ranks - 1) / ranks;
}

int64_t LanePlan::micro_batch(int of_rank, int64_t slot) const {
  if (order == LaneOrder::contiguous) return micro_batch_range(of_rank).first + slot;
  const int64_t at = slot * ranks + of_rank;
  return at < micro_batches ? at : -1;
}

std::vector<LaneBlock> LanePlan::blocks(int of_rank) const {
  auto [first, count] = lane_range(of_rank);
  LaneCounter counter;
  for (int64_t lane = first; lane < first + count; ++lane) counter.push({lane, 1});
  return counter.blocks();
}

bool splits_gradients(const Mesh& mesh, int zero) { return mesh.size("dp_shard") > 1 && zero >= 2; }

LaneOrder lane_order(bool splits_gradients, int64_t micro_batches, int64_t ranks, bool invariant) {
  const bool one_round = invariant && ranks > 1 && micro_batches == ranks;
  return splits_gradients || one_round ? LaneOrder::interleaved : LaneOrder::contiguous;
}

LaneOrder lane_order(const Mesh& mesh, int zero, int64_t micro_batches, bool invariant) {
  return lane_order(splits_gradients(mesh, zero), micro_batches, mesh.data_size(), invariant);
}

bool exchanges_by_host(const LanePlan& plan, bool invariant, int seats) {
  return invariant && seats > 1 && seats < plan.ranks &&
         (plan.order == LaneOrder::contiguous || seats % plan.per_lane() == 0);
}

RowOwners RowOwners::of(const Mesh& mesh) {
  return {static_cast<int>(mesh.size("dp_shard")), static_cast<int>(mesh.size("dp_replicate")),
          mesh.find("dp_shard") > mesh.find("dp_replicate")};
}

std::pair<int64_t, int64_t> RowOwners::rows(int64_t total, int data_rank) const {
  const int s = shard_fastest ? data_rank % shard : data_rank / replicate,
            r = shard_fastest ? data_rank / shard : data_rank % replicate;
  auto [first, count] = balanced(total, shard, s);
  auto [inner, mine] = balanced(count, replicate, r);
  return {first + inner, mine};
}

}  // namespace lockstep::compiler
