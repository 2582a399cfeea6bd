// What addends and partials become is written as trees over them, then each tree is added in one pass.
#include "compiler/reduce/lane_fold.h"

#include <algorithm>

#include "core/base/error.h"

namespace lockstep {

std::vector<BlockTree> trees_over_leaves(int64_t first, int64_t count, int64_t per_lane) {
  LS_CHECK(first % per_lane == 0 && count % per_lane == 0, "micro-batches ", first, " to ", first + count,
           " are no whole lanes of ", per_lane);
  std::vector<std::vector<LaneBlock>> lanes;
  for (int64_t i = 0; i < count; i += per_lane) lanes.push_back({{(first + i) / per_lane, 1}});
  auto trees = trees_over(lanes, false);
  // A lane is its micro-batches, added from the left.
  for (auto& tree : trees) {
    BlockTree leaves;
    leaves.block = tree.block;
    for (size_t s = 0; s < tree.sources.size(); ++s) {
      for (int64_t i = 0; i < per_lane; ++i) {
        leaves.sources.push_back({static_cast<int>(tree.sources[s].member * per_lane + i), 0});
        leaves.merges.push_back(i > 0);
      }
      leaves.merges.back() += tree.merges[s];
    }
    tree = std::move(leaves);
  }
  return trees;
}

size_t LaneFold::depth_of(int64_t lanes) {
  size_t depth = 2;
  for (; lanes > 1; lanes /= 2) ++depth;
  return depth;
}

LaneFold::LaneFold(const LanePlan& plan, int64_t elements, int64_t at_once, const Device& device,
                   Reductions& reductions, bool invariant)
    : plan_(plan), elements_(elements), reductions_(&reductions), invariant_(invariant) {
  plan_.check();
  if (!invariant_) return;
  const size_t depth = depth_of(plan_.lanes);
  if (depth + 1 > reductions_->most_sources())
    throw UserError(str("batch.lanes ", plan_.lanes, " adds ", depth + 1,
                        " partial sums of one gradient at once, and ", device.describe(), " adds at most ",
                        reductions_->most_sources(), "; set batch.lanes to a smaller divisor of the ",
                        plan_.micro_batches, " micro-batches, or set train.numerics to \"free\""));
  most_ = std::min(static_cast<size_t>(at_once), reductions_->most_sources() - depth);
  LaneCounter counter;
  int64_t added = 0;
  while (added < plan_.micro_batches) {
    const int64_t left_in_group = at_once - added % at_once;
    slots_ = std::max(
        slots_,
        depth_after(std::min({left_in_group, static_cast<int64_t>(most_), plan_.micro_batches - added}),
                    counter, added));
  }
}

size_t LaneFold::depth_after(int64_t leaves, LaneCounter& counter, int64_t& added) const {
  for (; leaves > 0; --leaves, ++added)
    if (added % plan_.per_lane() == plan_.per_lane() - 1) counter.push({added / plan_.per_lane(), 1});
  return counter.blocks().size() + (added % plan_.per_lane() ? 1 : 0);
}

void LaneFold::begin(Device& device) {
  if (partials_.empty())
    for (size_t s = 0; s < slots_; ++s) partials_.emplace_back(elements_ * sizeof(float), device.memory());
  counter_.clear();
  added_ = 0;
}

std::vector<LaneFold::Tree> LaneFold::held() const {
  const bool folding = invariant_ ? added_ % plan_.per_lane() != 0 : added_ > 0;
  const size_t count = (invariant_ ? counter_.blocks().size() : 0) + (folding ? 1 : 0);
  std::vector<Tree> trees;
  for (size_t i = 0; i < count; ++i) trees.push_back({{Reductions::Source(partial(i))}, {0}});
  return trees;
}

void LaneFold::add(std::vector<Tree>& trees, const Reductions::Source& addend, int merges) {
  trees.push_back({{addend}, {0}});
  for (; merges > 0; --merges) merge_last(trees);
}

void LaneFold::write(std::vector<Tree>& trees, Stream& stream) {
  // In order: a tree may take the place of a partial that stands in one before it.
  for (size_t i = 0; i < trees.size() && elements_ > 0; ++i) {
    if (trees[i].sources.size() == 1 && trees[i].sources[0] == Reductions::Source(partial(i))) continue;
    Reductions::Sum sum;
    sum.sources = std::move(trees[i].sources);
    sum.merges = std::move(trees[i].merges);
    sum.rows = 1, sum.width = elements_;
    sum.out = partial(i);
    reductions_->sum({&sum, 1}, stream);
  }
}

void LaneFold::push_leaves(const std::vector<Reductions::Source>& leaves, Stream& stream) {
  for (size_t from = 0; from < leaves.size(); from += most_) {
    std::vector<Tree> trees = held();
    for (size_t i = from; i < std::min(leaves.size(), from + most_); ++i) {
      int merges = added_ > 0;
      if (invariant_) {
        const int64_t in_lane = added_ % plan_.per_lane();
        merges = in_lane > 0;
        if (in_lane == plan_.per_lane() - 1) merges += counter_.push({added_ / plan_.per_lane(), 1});
      }
      ++added_;
      add(trees, leaves[i], merges);
    }
    write(trees, stream);
  }
}

void LaneFold::push_blocks(const std::vector<LaneBlock>& blocks, const std::vector<const float*>& sums,
                           Stream& stream) {
  LS_CHECK(invariant_ && blocks.size() == sums.size() && added_ % plan_.per_lane() == 0, blocks.size(),
           " subtrees after ", added_, " micro-batches");
  LS_CHECK(blocks.size() <= most_ || most_ == 1, blocks.size(), " subtrees at once, where ", most_,
           " leaves were announced");
  for (size_t from = 0; from < blocks.size(); from += most_) {
    std::vector<Tree> trees = held();
    for (size_t i = from; i < std::min(blocks.size(), from + most_); ++i) {
      add(trees, sums[i], counter_.push(blocks[i]));
      added_ += blocks[i].size * plan_.per_lane();
    }
    write(trees, stream);
  }
}

void LaneFold::finish(int64_t at, Reductions::Sum& into) const {
  const size_t blocks = invariant_ ? counter_.blocks().size() : 1;
  for (size_t b = 0; b < blocks; ++b) {
    into.sources.push_back(partial(b) + at);
    into.merges.push_back(0);
  }
  into.merges.back() += invariant_ ? counter_.remaining() : 0;
}

}  // namespace lockstep
