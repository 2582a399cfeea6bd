// Parts shared by all ways of a bucket's sum: subtrees sent to their owners, and sums that grow from the
// left.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "compiler/program/sums/bucket_sum.h"
#include "compiler/reduce/block_tree.h"

namespace lockstep::compiler {

inline constexpr int64_t kFloat = sizeof(float);
inline Span floats(const Span& base, int64_t at, int64_t count) {
  return base.part(at * kFloat, count * kFloat);
}

// UserError if the device cannot add that many at once.
void check_addends(size_t addends, const SumPlan& plan);

// One sum per tree, each a row of `elements`.
template <class SourceOf, class OutOf>
SumTrees sums_over(const std::vector<BlockTree>& trees, int64_t elements, SourceOf source, OutOf out) {
  SumTrees sums;
  for (size_t t = 0; t < trees.size(); ++t) {
    SumTrees::Tree& tree = sums.trees.emplace_back();
    for (const auto& from : trees[t].sources) tree.sources.push_back(source(from));
    tree.merges = trees[t].merges;
    tree.rows = 1, tree.width = elements, tree.out = out(t);
  }
  return sums;
}

// Appends one more addend, after which the last two trees merge `merges` times. The trees end in the subtrees
// of a counter.
inline void push_addend(std::vector<SumTrees::Tree>& trees, const SumTrees::Tree::Source& addend,
                        int merges) {
  trees.push_back({.sources = {addend}, .merges = {0}});
  for (; merges > 0; --merges) merge_last(trees);
}

// Sends subtrees to the owners of their rows: one all_to_all per subtree that some member has. A member's own
// chunk is the last of its subtrees and stays there.
class SubtreeExchange {
 public:
  SubtreeExchange(std::string along, std::vector<std::vector<LaneBlock>> blocks, std::vector<int64_t> chunks,
                  int me)
      : along_(std::move(along)), blocks_(std::move(blocks)), chunks_(std::move(chunks)), me_(me) {
    for (const auto& of : blocks_) rounds_ = std::max(rounds_, of.size());
    at_.resize(blocks_.size());
    for (size_t b = 0; b < rounds_; ++b)
      for (int r = 0; r < members(); ++r)
        if (r != me_ && b < blocks_[r].size()) {
          at_[r].push_back(received_);
          received_ += chunks_[me_];
        }
    for (int r = 0; r < members(); ++r) own_at_ += r == me_ ? 0 : chunks_[r];
  }
  int members() const { return static_cast<int>(blocks_.size()); }
  int64_t received() const { return received_; }  // elements
  const std::vector<std::vector<LaneBlock>>& blocks() const { return blocks_; }

  // `mine`: this member's subtrees, with all members' chunks. `into`: received() floats.
  void start(ProgramWriter& writer, std::vector<Span> mine, Span into, const std::string& label) {
    mine_ = std::move(mine), into_ = into;
    if (members() == 1) return;
    int64_t at = 0;
    for (size_t b = 0; b < rounds_; ++b) {
      StartCollective all{.verb = StartCollective::Verb::all_to_all, .along = along_, .dtype = DType::f32};
      all.send.assign(chunks_.size(), 0), all.receive.assign(chunks_.size(), 0);
      const bool has = b < blocks_[me_].size();
      int64_t receives = 0;
      for (int r = 0; r < members(); ++r) {
        if (r == me_) continue;
        if (has) all.send[r] = chunks_[r];
        if (b < blocks_[r].size()) all.receive[r] = chunks_[me_], receives += chunks_[me_];
      }
      if (has) all.from = mine_[b].part(0, own_at_ * kFloat);
      all.to = floats(into_, at, receives);
      all.label = rounds_ == 1 ? label : str(label, " part ", b);
      flights_.push_back(writer.start(std::move(all)));
      at += receives;
    }
  }
  void wait(ProgramWriter& writer) {
    for (int flight : flights_) writer.wait(flight);
    flights_.clear();
  }
  // The place of this member's chunk of a subtree after the wait.
  Span chunk(const BlockTree::Source& source) const {
    return source.member == me_ ? floats(mine_[source.block], own_at_, chunks_[me_])
                                : floats(into_, at_[source.member][source.block], chunks_[me_]);
  }

 private:
  std::string along_;
  std::vector<std::vector<LaneBlock>> blocks_;
  std::vector<int64_t> chunks_;
  int me_;
  size_t rounds_ = 0;
  std::vector<std::vector<int64_t>> at_;  // per member, per subtree: its place in the received data
  int64_t own_at_ = 0, received_ = 0;
  std::vector<Span> mine_;
  Span into_;
  std::vector<int> flights_;
};

// Sums of the rows of one owner that grow from the left, leaf by leaf or subtree by subtree. The pass that
// completes them also squares the rows of each tensor, if `ends` lists them.
class Fold {
  using Tree = SumTrees::Tree;

 public:
  struct Rows {  // of a tensor, `at` elements from the first
    int64_t at = 0, rows = 0, width = 0;
    Span squares = {};
  };
  Fold(ProgramWriter& writer, const SumPlan& plan, int64_t elements, int64_t at_once, const std::string& name)
      : writer_(writer), plan_(plan), elements_(elements), name_(name) {
    if (!plan.invariant) return;
    const size_t depth = counter_depth(plan.lanes.lanes);
    if (depth + 1 > plan.limits.sources)
      throw UserError(str("batch.lanes ", plan.lanes.lanes, " adds ", depth + 1,
                          " partial sums of one gradient at once, and ", plan.limits.device, " adds at most ",
                          plan.limits.sources, "; set batch.lanes to a smaller divisor of the ",
                          plan.lanes.micro_batches, " micro-batches, or set train.numerics to \"free\""));
    most_ = std::min(static_cast<size_t>(at_once), plan.limits.sources - depth);
  }

  // `ends`: the rows of all tensors, if these are the last leaves of the step.
  void push_leaves(const std::vector<Tree::Source>& leaves, const std::vector<Rows>* ends) {
    const int64_t per_lane = plan_.lanes.per_lane();
    for (size_t from = 0; from < leaves.size(); from += most_) {
      std::vector<Tree> trees = held();
      for (size_t i = from; i < std::min(leaves.size(), from + most_); ++i) {
        int merges = added_ > 0;
        if (plan_.invariant) {
          const int64_t in_lane = added_ % per_lane;
          merges = in_lane > 0;
          if (in_lane == per_lane - 1) merges += counter_.push({added_ / per_lane, 1});
        }
        ++added_;
        push_addend(trees, leaves[i], merges);
      }
      write(trees, from + most_ < leaves.size() ? nullptr : ends);
    }
  }
  void push_blocks(const std::vector<LaneBlock>& blocks, const std::vector<Span>& sums,
                   const std::vector<Rows>* ends) {
    for (size_t from = 0; from < blocks.size(); from += most_) {
      std::vector<Tree> trees = held();
      for (size_t i = from; i < std::min(blocks.size(), from + most_); ++i) {
        push_addend(trees, {sums[i], DType::f32}, counter_.push(blocks[i]));
        added_ += blocks[i].size * plan_.lanes.per_lane();
      }
      write(trees, from + most_ < blocks.size() ? nullptr : ends);
    }
  }
  bool is_whole() const { return whole_; }
  // The remaining additions for `count` elements from `at`. An owner of no rows has no partial sums.
  void finish(int64_t at, int64_t count, Tree& into) const {
    const size_t blocks = plan_.invariant && !whole_ ? counter_.blocks().size() : 1;
    for (size_t b = 0; b < blocks; ++b) {
      into.sources.push_back({elements_ > 0 ? floats(partials_[b], at, count) : Span{}, DType::f32});
      into.merges.push_back(0);
    }
    into.merges.back() += plan_.invariant && !whole_ ? counter_.remaining() : 0;
  }

 private:
  const Span& partial(size_t i) {
    while (partials_.size() <= i)
      partials_.push_back(
          writer_.region(Region::Kind::partial, str(name_, " sum ", partials_.size()), elements_ * kFloat));
    return partials_[i];
  }
  std::vector<Tree> held() {
    const bool folding = plan_.invariant ? added_ % plan_.lanes.per_lane() != 0 : added_ > 0;
    const size_t count = (plan_.invariant ? counter_.blocks().size() : 0) + (folding ? 1 : 0);
    std::vector<Tree> trees;
    for (size_t i = 0; i < count; ++i) trees.push_back({.sources = {{partial(i)}}, .merges = {0}});
    return trees;
  }
  // Writes in order, because a tree may replace a partial sum that an earlier tree reads.
  void write(std::vector<Tree>& trees, const std::vector<Rows>* ends) {
    if (elements_ == 0) {
      whole_ = ends && ends->empty();  // rows without elements have squares: 0
      return;
    }
    if (ends) return end(trees, *ends);
    for (size_t i = 0; i < trees.size(); ++i) {
      if (trees[i].sources.size() == 1 && trees[i].sources[0] == Tree::Source{partial(i)}) continue;
      trees[i].rows = 1, trees[i].width = elements_, trees[i].out = partial(i);
      writer_.put(SumTrees{{std::move(trees[i])}});
    }
  }
  void end(std::vector<Tree>& trees, const std::vector<Rows>& tensors) {
    while (trees.size() > 1) merge_last(trees);
    SumTrees sums;
    for (const auto& [at, rows, width, squares] : tensors) {
      Tree& tree = sums.trees.emplace_back(trees[0]);
      for (auto& source : tree.sources) {
        const auto size = static_cast<int64_t>(size_of(source.dtype));
        source.at = source.at.part(at * size, rows * width * size);
      }
      tree.rows = rows, tree.width = width;
      tree.out = floats(partial(0), at, rows * width), tree.row_squares = squares;
    }
    writer_.put(std::move(sums));
    whole_ = true;
  }

  ProgramWriter& writer_;
  const SumPlan& plan_;
  int64_t elements_;
  std::string name_;
  size_t most_ = 1;  // the most addends of one pass
  LaneCounter counter_;
  int64_t added_ = 0;  // micro-batches; in free numerics, groups of them
  bool whole_ = false;
  std::vector<Span> partials_;
};

// The implementations: nothing to add; one exchange per step; a round per micro-batch.
std::unique_ptr<BucketSum> of_one_micro_batch(ProgramWriter& writer, const SumPlan& plan, std::string label,
                                              PackedRows rows);
std::unique_ptr<BucketSum> once_per_step(ProgramWriter& writer, const SumPlan& plan, SumTurns& turns,
                                         std::string label, PackedRows rows);
// `bucket`: its number. Even and odd buckets use the two sets of staging memory in turns (swapped from
// SumTurns::seam on), so that a bucket is packed while the previous one travels.
std::unique_ptr<BucketSum> in_rounds(ProgramWriter& writer, const SumPlan& plan, SumTurns& turns,
                                     size_t bucket, std::string label, PackedRows rows);

}  // namespace lockstep::compiler
