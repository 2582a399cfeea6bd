// NodeReducer: the exchange of LaneReducer where data ranks are on several hosts: first among the ranks of a
// host, whose subtrees are added there, then among the ranks that sit at the same place of every host. Across
// hosts a rank sends its share of what its host has added, once, instead of all that it has added itself.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "compiler/reduce/block_exchange.h"
#include "compiler/reduce/gradient_reducer.h"
#include "compiler/reduce/lane_partials.h"

namespace lockstep {

// The sums that make `trees`, one per tree: `source` gives the addend of a member's block, `to` the place of
// a tree's sum.
std::vector<Reductions::Sum> sums_over(
    const std::vector<BlockTree>& trees, int64_t elements,
    const std::function<Reductions::Source(const BlockTree::Source&)>& source,
    const std::function<float*(size_t)>& to);

class NodeReducer : public GradientReducer, public TwoStages {
 public:
  // As LaneReducer with `owners`, in invariant numerics. `nodes` has several hosts of several ranks; its
  // groups may be null where nothing is sent. `turn` is shared by the buckets of a step.
  NodeReducer(const std::vector<Shape>& shapes, const LanePlan& plan, const RowOwners& owners, Device& device,
              Reductions& reductions, const DataNodes& nodes, std::shared_ptr<NodeTurn> turn,
              DType dtype = DType::f32);

  void begin() override;
  void add(int64_t slot, const std::vector<const void*>& gradients, Group& data, Stream& stream,
           const std::string& label) override;
  void end(Group& data, Stream& stream, const std::string& label) override;
  void wait(Stream& stream) override;
  int64_t bytes() const override;
  int64_t sent_bytes() const override;
  int64_t sent_across() const override;

  void advance(Stream& stream) override;

 private:
  Reductions::Sum addends_of(size_t tensor) const override;
  enum class Phase { idle, adding, inside, across, summed };
  Device* device_;
  Reductions* reductions_;
  DataNodes nodes_;
  std::shared_ptr<NodeTurn> turn_;
  LanePartials mine_;
  int64_t share_ = 0;  // elements that this rank adds for its host: its own rows and those of its
                       // counterparts on other hosts
  std::vector<BlockTree> of_node_;  // what this host's subtrees add up to
  BlockTree whole_;                 // of all hosts' subtrees
  std::unique_ptr<BlockExchange> inside_, across_;
  Phase phase_ = Phase::idle;
  std::string label_;
  Buffer from_inside_, from_across_;
  std::vector<Buffer> added_;  // per tree of the host
};

}  // namespace lockstep
