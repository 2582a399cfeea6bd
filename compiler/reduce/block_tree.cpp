// Builds trees of additions from the counter's merges.
#include "compiler/reduce/block_tree.h"

#include "core/base/error.h"

namespace lockstep::compiler {

std::vector<BlockTree> trees_over(const std::vector<std::vector<LaneBlock>>& blocks, bool whole) {
  LaneCounter counter;
  std::vector<BlockTree> trees;
  for (size_t m = 0; m < blocks.size(); ++m)
    for (size_t b = 0; b < blocks[m].size(); ++b) {
      const int merges = counter.push(blocks[m][b]);
      trees.push_back({{{static_cast<int>(m), static_cast<int>(b)}}, {0}, {}});
      for (int i = 0; i < merges; ++i) merge_last(trees);
      trees.back().block = counter.blocks().back();
    }
  while (whole && trees.size() > 1) merge_last(trees);
  return trees;
}

std::vector<BlockTree> trees_over_leaves(int64_t first, int64_t count, int64_t per_lane) {
  LS_CHECK(first % per_lane == 0 && count % per_lane == 0, "micro-batches ", first, " to ", first + count,
           " are no whole lanes of ", per_lane);
  std::vector<std::vector<LaneBlock>> lanes;
  for (int64_t i = 0; i < count; i += per_lane) lanes.push_back({{(first + i) / per_lane, 1}});
  auto trees = trees_over(lanes, false);
  // A lane is replaced by its micro-batches, added from the left.
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

size_t counter_depth(int64_t lanes) {
  size_t depth = 2;
  for (; lanes > 1; lanes /= 2) ++depth;
  return depth;
}

}  // namespace lockstep::compiler
