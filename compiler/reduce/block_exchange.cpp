// One all_to_all per subtree that some member has.
#include "compiler/reduce/block_exchange.h"

#include <algorithm>

#include "core/base/error.h"

namespace lockstep {

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

BlockExchange::BlockExchange(std::vector<std::vector<LaneBlock>> blocks, std::vector<int64_t> chunks, int me)
    : blocks_(std::move(blocks)), chunks_(std::move(chunks)), me_(me) {
  LS_CHECK(blocks_.size() == chunks_.size() && me_ < blocks_.size(), "member ", me, " of ", blocks_.size(),
           " with ", chunks_.size(), " chunks");
  for (size_t r = 0; r < chunks_.size(); ++r) own_at_ += r == me_ ? 0 : chunks_[r];
  for (const auto& of : blocks_) rounds_ = std::max(rounds_, of.size());
  // Received chunks lie as the rounds bring them: of round b, that of each other member that has a block b.
  at_.resize(blocks_.size());
  for (size_t b = 0; b < rounds_; ++b)
    for (size_t r = 0; r < blocks_.size(); ++r) {
      if (b >= blocks_[r].size() || r == me_) continue;
      at_[r].push_back(received_);
      received_ += chunks_[me_];
    }
}

int64_t BlockExchange::sent() const { return static_cast<int64_t>(blocks_[me_].size()) * own_at_; }

void BlockExchange::start(Group& group, const std::vector<const float*>& mine, float* into,
                          const std::string& label, Stream& stream) {
  LS_CHECK(group.size() == static_cast<int>(blocks_.size()) && group.rank() == static_cast<int>(me_),
           "the exchange is for member ", me_, " of ", blocks_.size(), ", the group has rank ", group.rank(),
           " of ", group.size());
  LS_CHECK(works_.empty() && mine.size() == blocks_[me_].size(), mine.size(), " subtrees for ",
           blocks_[me_].size());
  mine_ = mine, into_ = into;
  if (blocks_.size() == 1) return;
  int64_t at = 0;
  for (size_t b = 0; b < rounds_; ++b) {
    // Round b carries the b-th subtree of every member that has one. A member's own chunk is last in its
    // subtree and stays there.
    std::vector<int64_t> send(chunks_.size(), 0), receive(chunks_.size(), 0);
    const bool has = b < blocks_[me_].size();
    int64_t receives = 0;
    for (size_t r = 0; r < chunks_.size(); ++r) {
      if (r == me_) continue;
      if (has) send[r] = chunks_[r];
      if (b < blocks_[r].size()) receive[r] = chunks_[me_], receives += chunks_[me_];
    }
    const float* in = has ? mine[b] : into;
    works_.push_back(group.start(AllToAll{in, into + at, send, receive, DType::f32},
                                 rounds_ == 1 ? label : str(label, " part ", b), stream));
    at += receives;
  }
}

void BlockExchange::wait(Stream& stream) {
  for (auto& work : works_) work->wait(stream);
  works_.clear();
}

const float* BlockExchange::chunk(const BlockTree::Source& source) const {
  const auto member = static_cast<size_t>(source.member), block = static_cast<size_t>(source.block);
  return member == me_ ? mine_[block] + own_at_ : into_ + at_[member][block];
}

}  // namespace lockstep
