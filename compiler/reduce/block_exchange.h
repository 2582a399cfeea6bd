// BlockExchange: subtrees over lanes on their way to the owners of their rows, and how what arrives is added
// on.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "compiler/reduce/lanes.h"
#include "core/mesh/group.h"

namespace lockstep {

// The additions that end in one subtree: sources are pushed in order, after the i-th the topmost two are
// added merges[i] times, as Reductions::Sum reads them.
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

class BlockExchange {
 public:
  // Per member of a group its subtrees, and the elements that it receives of each. A member's own chunk is
  // the last of its subtrees, the others' stand before it in the order of members.
  BlockExchange(std::vector<std::vector<LaneBlock>> blocks, std::vector<int64_t> chunks, int me);
  int64_t received() const { return received_; }  // elements
  int64_t sent() const;
  // `mine`: this member's subtrees; `into`: received() elements. Both stay until wait() is through. The same
  // call on every member.
  void start(Group& group, const std::vector<const float*>& mine, float* into, const std::string& label,
             Stream& stream);
  void wait(Stream& stream);
  bool under_way() const { return !works_.empty(); }
  // Where this member's chunk of a subtree is after the wait.
  const float* chunk(const BlockTree::Source& source) const;

 private:
  std::vector<std::vector<LaneBlock>> blocks_;
  std::vector<int64_t> chunks_;
  size_t me_, rounds_ = 0;
  std::vector<std::vector<int64_t>> at_;  // per member, per block: its place in what was received
  int64_t own_at_ = 0, received_ = 0;     // own_at_: in a subtree of one's own
  std::vector<const float*> mine_;
  const float* into_ = nullptr;
  std::vector<std::shared_ptr<Work>> works_;
};

}  // namespace lockstep
