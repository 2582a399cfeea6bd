// Two exchanges with an addition between them.
#include "compiler/reduce/node_reducer.h"

#include <algorithm>

#include "compiler/reduce/lane_reducer.h"
#include "core/base/error.h"

namespace lockstep {

std::vector<Reductions::Sum> sums_over(
    const std::vector<BlockTree>& trees, int64_t elements,
    const std::function<Reductions::Source(const BlockTree::Source&)>& source,
    const std::function<float*(size_t)>& to) {
  std::vector<Reductions::Sum> out;
  for (size_t t = 0; t < trees.size(); ++t) {
    Reductions::Sum& sum = out.emplace_back();
    for (const auto& from : trees[t].sources) sum.sources.push_back(source(from));
    sum.merges = trees[t].merges;
    sum.rows = 1, sum.width = elements, sum.out = to(t);
  }
  return out;
}

NodeReducer::NodeReducer(const std::vector<Shape>& shapes, const LanePlan& plan, const RowOwners& owners,
                         Device& device, Reductions& reductions, const DataNodes& nodes,
                         std::shared_ptr<NodeTurn> turn, DType dtype)
    : device_(&device),
      reductions_(&reductions),
      nodes_(nodes),
      turn_(std::move(turn)),
      mine_(shapes, plan, owners, nodes.order(plan.ranks, plan.rank), device, reductions, true, dtype) {
  const int seats = nodes_.ranks, hosts = plan.ranks / seats, seat = plan.rank % seats,
            host = plan.rank / seats;
  std::vector<std::vector<LaneBlock>> of_ranks, of_hosts;
  std::vector<int64_t> seat_chunks(seats, 0), rail_chunks;
  for (int h = 0; h < hosts; ++h) {
    std::vector<std::vector<LaneBlock>> ranks;
    for (int s = 0; s < seats; ++s) {
      ranks.push_back(plan.blocks(h * seats + s));
      seat_chunks[s] += mine_.rows().chunk(h * seats + s);
    }
    auto trees = trees_over(ranks, false);
    of_hosts.emplace_back();
    for (const auto& tree : trees) {
      of_hosts.back().push_back(tree.block);
      check_sources(tree.sources.size(), plan, device, reductions);
    }
    if (h == host) of_node_ = std::move(trees), of_ranks = std::move(ranks);
    rail_chunks.push_back(mine_.rows().chunk(h * seats + seat));
  }
  share_ = seat_chunks[seat];
  whole_ = trees_over(of_hosts, true)[0];
  check_sources(whole_.sources.size(), plan, device, reductions);
  inside_ = std::make_unique<BlockExchange>(std::move(of_ranks), std::move(seat_chunks), seat);
  across_ = std::make_unique<BlockExchange>(std::move(of_hosts), std::move(rail_chunks), host);
}

int64_t NodeReducer::bytes() const {
  const int64_t elements =
      inside_->received() + static_cast<int64_t>(of_node_.size()) * share_ + across_->received();
  return mine_.bytes() + elements * static_cast<int64_t>(sizeof(float));
}
int64_t NodeReducer::sent_across() const { return across_->sent() * static_cast<int64_t>(sizeof(float)); }
int64_t NodeReducer::sent_bytes() const {
  return inside_->sent() * static_cast<int64_t>(sizeof(float)) + sent_across();
}

void NodeReducer::begin() {
  LS_CHECK(phase_ == Phase::idle || phase_ == Phase::adding || phase_ == Phase::summed,
           "the exchange of the last step was not waited for");
  mine_.begin();
  if (phase_ == Phase::idle) {
    from_inside_ = Buffer(inside_->received() * sizeof(float), device_->memory());
    from_across_ = Buffer(across_->received() * sizeof(float), device_->memory());
    for (size_t t = 0; t < of_node_.size(); ++t)
      added_.emplace_back(share_ * sizeof(float), device_->memory());
  }
  phase_ = Phase::adding;
}

void NodeReducer::add(int64_t slot, const std::vector<const void*>& gradients, Group&, Stream& stream,
                      const std::string&) {
  LS_CHECK(phase_ == Phase::adding, "a gradient outside a step");
  mine_.push(mine_.plan().micro_batch(mine_.plan().rank, slot), gradients, stream);
}

void NodeReducer::end(Group& data, Stream& stream, const std::string& label) {
  const LanePlan& plan = mine_.plan();
  LS_CHECK(data.size() == plan.ranks && data.rank() == plan.rank && nodes_.inside && nodes_.across,
           "the plan is for rank ", plan.rank, " of ", plan.ranks, " on hosts of ", nodes_.ranks,
           ", the group has rank ", data.rank(), " of ", data.size());
  LS_CHECK(phase_ == Phase::adding && mine_.complete(), "an exchange at micro-batch ", mine_.next(),
           ", before all were added");
  turn_->take(this, stream);
  phase_ = Phase::inside;
  label_ = label;
  std::vector<const float*> blocks;
  for (size_t b = 0; b < plan.blocks(plan.rank).size(); ++b) blocks.push_back(mine_.block(b));
  inside_->start(*nodes_.inside, blocks, from_inside_.as<float>(), label + " inside", stream);
}

void NodeReducer::advance(Stream& stream) {
  if (phase_ != Phase::inside) return;
  inside_->wait(stream);
  std::vector<const float*> blocks;
  for (const Buffer& sum : added_) blocks.push_back(sum.as<float>());
  const auto sums = sums_over(
      of_node_, share_, [&](const auto& source) { return inside_->chunk(source); },
      [&](size_t t) { return added_[t].as<float>(); });
  if (share_ > 0 && !sums.empty()) reductions_->sum(sums, stream);
  across_->start(*nodes_.across, blocks, from_across_.as<float>(), label_ + " across", stream);
  phase_ = Phase::across;
}

void NodeReducer::wait(Stream& stream) {
  LS_CHECK(phase_ == Phase::inside || phase_ == Phase::across, "no exchange is under way");
  turn_->take(nullptr, stream);
  advance(stream);
  across_->wait(stream);
  phase_ = Phase::summed;
}

Reductions::Sum NodeReducer::addends_of(size_t tensor) const {
  LS_CHECK(phase_ == Phase::summed, "a sum before its exchange was waited for");
  Reductions::Sum out;
  out.rows = mine_.rows().owned_rows(tensor).second;
  out.width = mine_.rows().width(tensor);
  for (const auto& source : whole_.sources)
    out.sources.push_back(across_->chunk(source) + mine_.rows().at(tensor));
  out.merges = whole_.merges;
  return out;
}

}  // namespace lockstep
