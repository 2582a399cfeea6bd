// LaneFold: sums over lanes that grow from the left, leaf by leaf or subtree by subtree, of the rows of one
// owner. Memory: a fold of the lane that is open, and the counter's subtrees.
#pragma once

#include <vector>

#include "compiler/codegen/target.h"
#include "compiler/reduce/block_exchange.h"

namespace lockstep {

// The trees that consecutive micro-batches add up to, the first one at the start of a lane, the last one at
// the end of one; member i is the i-th of them.
std::vector<BlockTree> trees_over_leaves(int64_t first, int64_t count, int64_t per_lane);

class LaneFold {
 public:
  // For partial sums of `elements`, given in groups of at most `at_once` leaves or of the subtrees that they
  // form. Without `invariant` there is one sum, added from left to right. UserError where one addition would
  // have more partials than `reductions` adds.
  LaneFold(const LanePlan& plan, int64_t elements, int64_t at_once, const Device& device,
           Reductions& reductions, bool invariant);
  static size_t depth_of(int64_t lanes);  // partials of the counter at its fullest, with a fold
  int64_t bytes() const { return static_cast<int64_t>(slots_ * sizeof(float)) * elements_; }

  void begin(Device& device);  // the first one takes the memory
  // The next micro-batches, or the next subtrees over whole lanes, in order: one pass over what is held and
  // them, or a few.
  void push_leaves(const std::vector<Reductions::Source>& leaves, Stream& stream);
  void push_blocks(const std::vector<LaneBlock>& blocks, const std::vector<const float*>& sums,
                   Stream& stream);
  // What is left to add: sources at element `at` of each, and merges.
  void finish(int64_t at, Reductions::Sum& into) const;

 private:
  struct Tree {
    std::vector<Reductions::Source> sources;
    std::vector<int> merges;
  };
  float* partial(size_t slot) const { return partials_[slot].as<float>(); }
  std::vector<Tree> held() const;
  static void add(std::vector<Tree>& trees, const Reductions::Source& addend, int merges);
  void write(std::vector<Tree>& trees, Stream& stream);
  size_t depth_after(int64_t leaves, LaneCounter& counter, int64_t& added) const;  // what is held then

  LanePlan plan_;
  int64_t elements_;
  Reductions* reductions_;
  bool invariant_;
  size_t slots_ = 1, most_ = 1;  // partials; addends of one pass
  LaneCounter counter_;
  int64_t added_ = 0;  // micro-batches, in free numerics groups
  std::vector<Buffer> partials_;
};

}  // namespace lockstep
