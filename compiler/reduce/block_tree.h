// BlockTree: the additions that end in one subtree over lanes, as sources and merges.
#pragma once

#include <utility>
#include <vector>

#include "compiler/reduce/lanes.h"

namespace lockstep::compiler {

// Sources are pushed in order, after the i-th the topmost two are added merges[i] times, as Reductions::Sum
// reads them.
struct BlockTree {
  struct Source {
    int member = 0, block = 0;  // the block-th subtree of that member
  };
  std::vector<Source> sources;
  std::vector<int> merges;
  LaneBlock block;  // what they end in; of a whole sum: the last one that was added
};
// Makes one of the last two trees: the sum that the right one ends in is added to that of the left one. A
// tree has sources and merges.
template <class Tree>
void merge_last(std::vector<Tree>& trees) {
  Tree right = std::move(trees.back());
  trees.pop_back();
  Tree& left = trees.back();
  left.sources.insert(left.sources.end(), right.sources.begin(), right.sources.end());
  left.merges.insert(left.merges.end(), right.merges.begin(), right.merges.end());
  ++left.merges.back();
}
// The trees that members' subtrees, pushed in lane order, add up to. `whole`: one, merged to the end.
std::vector<BlockTree> trees_over(const std::vector<std::vector<LaneBlock>>& blocks, bool whole);
// The trees that consecutive micro-batches add up to, the first one at the start of a lane, the last one at
// the end of one; member i is the i-th of them.
std::vector<BlockTree> trees_over_leaves(int64_t first, int64_t count, int64_t per_lane);
// Partials of a counter over so many lanes at its fullest, with the fold of an open lane.
size_t counter_depth(int64_t lanes);

}  // namespace lockstep::compiler
