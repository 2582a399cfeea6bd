// BlockTree: the additions that produce one subtree over lanes, as sources and merges.
#pragma once

#include <utility>
#include <vector>

#include "compiler/reduce/lanes.h"

namespace lockstep::compiler {

// Sources are pushed in order; after the i-th, the topmost two are added merges[i] times, as in
// Reductions::Sum.
struct BlockTree {
  struct Source {
    int member = 0, block = 0;  // the block-th subtree of that member
  };
  std::vector<Source> sources;
  std::vector<int> merges;
  LaneBlock block;  // their result; for a whole sum, the last block that was added
};
// Merges the last two trees: the sum of the right one is added to the sum of the left one. A tree has sources
// and merges.
template <class Tree>
void merge_last(std::vector<Tree>& trees) {
  Tree right = std::move(trees.back());
  trees.pop_back();
  Tree& left = trees.back();
  left.sources.insert(left.sources.end(), right.sources.begin(), right.sources.end());
  left.merges.insert(left.merges.end(), right.merges.begin(), right.merges.end());
  ++left.merges.back();
}
// The trees that result if members' subtrees are pushed in lane order. `whole`: one tree, merged to the end.
std::vector<BlockTree> trees_over(const std::vector<std::vector<LaneBlock>>& blocks, bool whole);
// The trees that result from consecutive micro-batches. The first one starts a lane, and the last one ends a
// lane; member i is the i-th of them.
std::vector<BlockTree> trees_over_leaves(int64_t first, int64_t count, int64_t per_lane);
// The most partials of a counter over this many lanes, including the fold of an open lane.
size_t counter_depth(int64_t lanes);

}  // namespace lockstep::compiler
