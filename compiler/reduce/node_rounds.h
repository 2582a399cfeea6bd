// NodeRounds: RoundReducer over several hosts, where the micro-batches of a lane are on one host. A round has
// two stages: the ranks of a host exchange gradients and add up the subtrees of the host's lanes; then the
// ranks at the same place of each host exchange these sums.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compiler/reduce/round_reducer.h"

namespace lockstep {

class NodeRounds : public GradientReducer, public TwoStages, public Round {
 public:
  // As RoundReducer, in invariant numerics; `nodes` and `turn` as NodeReducer. Micro-batches per lane divide
  // the ranks of a host.
  NodeRounds(const std::vector<Shape>& shapes, const LanePlan& plan, const RowOwners& owners, Device& device,
             Reductions& reductions, std::shared_ptr<RoundBuffers> buffers, const DataNodes& nodes,
             std::shared_ptr<NodeTurn> turn, DType dtype = DType::f32);

  void begin() override;
  void add(int64_t slot, const std::vector<const void*>& gradients, Group& data, Stream& stream,
           const std::string& label) override;
  void end(Group& data, Stream& stream, const std::string& label) override;
  void wait(Stream& stream) override;
  int64_t bytes() const override { return fold_.bytes(); }
  int64_t sent_bytes() const override;
  int64_t sent_across() const override;

  void advance(Stream& stream) override;
  void complete(Stream& stream) override;

 private:
  Reductions::Sum addends_of(size_t tensor) const override;
  int64_t of_host(int host, int64_t slot) const;  // micro-batches that its ranks run in the slot
  // What the hosts have after round `slot`: per host its trees over its ranks' micro-batches.
  std::vector<std::vector<BlockTree>> trees_of(int64_t slot) const;
  // Leaves that the fold is told to expect: a round's, where their subtrees are few enough to be added at
  // once, else one by one.
  int64_t at_once() const;
  BlockExchange across_of(const std::vector<std::vector<BlockTree>>& trees) const;
  int host() const { return plan_.rank / nodes_.ranks; }
  int seat() const { return plan_.rank % nodes_.ranks; }
  int64_t share() const { return seat_chunks_[seat()]; }  // elements that this rank adds for its host
  int64_t leaf_bytes() const { return static_cast<int64_t>(size_of(rows_.dtype())); }
  // What a set receives: the leaves of the host's other ranks, then the host's sums, then those of other
  // hosts.
  float* sums_in(const RoundBuffers::Set& set) const;

  LanePlan plan_;
  DataNodes nodes_;
  PackedRows rows_;
  Device* device_;
  Reductions* reductions_;
  std::shared_ptr<NodeTurn> turn_;
  std::shared_ptr<RoundBuffers> buffers_;
  std::vector<int64_t> seat_chunks_, rail_chunks_;  // elements that each rank of the host adds for it; rows
                                                    // of each host's rank at this place
  int64_t most_trees_ = 0;                          // of a round of this host
  LaneFold fold_;

  bool adding_ = false, summed_ = false;
  int64_t next_slot_ = 0, flying_ = -1;  // flying_: the slot whose round is under way
  std::string label_;
  RoundBuffers::Set* set_ = nullptr;
  std::shared_ptr<Work> inside_;
  std::vector<std::vector<BlockTree>> trees_;
  std::unique_ptr<BlockExchange> across_;
};

}  // namespace lockstep
