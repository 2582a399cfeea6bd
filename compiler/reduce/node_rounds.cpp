// A round: leaves to the ranks of the host, added there; subtrees across; pushed by the owner.
#include "compiler/reduce/node_rounds.h"

#include <algorithm>

#include "compiler/reduce/lane_reducer.h"
#include "compiler/reduce/node_reducer.h"
#include "core/base/error.h"

namespace lockstep {

namespace {
// Where f32 may begin behind leaves.
int64_t leaves_end(int64_t bytes) { return (bytes + 255) / 256 * 256; }
}  // namespace

NodeRounds::NodeRounds(const std::vector<Shape>& shapes, const LanePlan& plan, const RowOwners& owners,
                       Device& device, Reductions& reductions, std::shared_ptr<RoundBuffers> buffers,
                       const DataNodes& nodes, std::shared_ptr<NodeTurn> turn, DType dtype)
    : plan_(plan),
      nodes_(nodes),
      rows_(shapes, owners, nodes.order(plan.ranks, plan.rank), plan.rank, dtype),
      device_(&device),
      reductions_(&reductions),
      turn_(std::move(turn)),
      buffers_(std::move(buffers)),
      seat_chunks_(nodes.ranks, 0),
      fold_(plan, rows_.chunk(), at_once(), device, reductions, true) {
  LS_CHECK(plan_.order == LaneOrder::interleaved && nodes_.ranks % plan_.per_lane() == 0, "lanes of ",
           plan_.per_lane(), " micro-batches in rounds of hosts of ", nodes_.ranks, " ranks");
  for (int r = 0; r < plan_.ranks; ++r) {
    seat_chunks_[r % nodes_.ranks] += rows_.chunk(r);
    if (r % nodes_.ranks == seat()) rail_chunks_.push_back(rows_.chunk(r));
  }
  int64_t from_across = 0;
  for (int64_t slot = 0; slot < plan_.slots(plan_.rank); ++slot) {
    const auto trees = trees_of(slot);
    most_trees_ = std::max(most_trees_, static_cast<int64_t>(trees[host()].size()));
    from_across = std::max(from_across, across_of(trees).received());
    for (const auto& tree : trees[host()]) check_sources(tree.sources.size(), plan_, device, reductions);
  }
  buffers_->fit(rows_.elements() * leaf_bytes(),
                leaves_end(share() * (nodes_.ranks - 1) * leaf_bytes()) +
                    (share() * most_trees_ + from_across) * static_cast<int64_t>(sizeof(float)));
}

float* NodeRounds::sums_in(const RoundBuffers::Set& set) const {
  return reinterpret_cast<float*>(set.receive.data() +
                                  leaves_end(share() * (nodes_.ranks - 1) * leaf_bytes()));
}

int64_t NodeRounds::of_host(int host, int64_t slot) const {
  const int64_t first = slot * plan_.ranks + static_cast<int64_t>(host) * nodes_.ranks;
  return std::clamp<int64_t>(plan_.micro_batches - first, 0, nodes_.ranks);
}

std::vector<std::vector<BlockTree>> NodeRounds::trees_of(int64_t slot) const {
  std::vector<std::vector<BlockTree>> out;
  for (int h = 0; h < plan_.ranks / nodes_.ranks; ++h)
    out.push_back(trees_over_leaves(slot * plan_.ranks + static_cast<int64_t>(h) * nodes_.ranks,
                                    of_host(h, slot), plan_.per_lane()));
  return out;
}

int64_t NodeRounds::at_once() const {
  size_t most = 0;
  for (int64_t slot = 0; slot < plan_.slots(plan_.rank); ++slot) {
    size_t blocks = 0;
    for (const auto& trees : trees_of(slot)) blocks += trees.size();
    most = std::max(most, blocks);
  }
  return most + LaneFold::depth_of(plan_.lanes) <= reductions_->most_sources() ? plan_.ranks : 1;
}

BlockExchange NodeRounds::across_of(const std::vector<std::vector<BlockTree>>& trees) const {
  std::vector<std::vector<LaneBlock>> blocks(trees.size());
  for (size_t h = 0; h < trees.size(); ++h)
    for (const auto& tree : trees[h]) blocks[h].push_back(tree.block);
  return {std::move(blocks), rail_chunks_, host()};
}

int64_t NodeRounds::sent_across() const {
  int64_t elements = 0;
  for (int64_t slot = 0; slot < plan_.slots(plan_.rank); ++slot) elements += across_of(trees_of(slot)).sent();
  return elements * static_cast<int64_t>(sizeof(float));
}
int64_t NodeRounds::sent_bytes() const {
  int64_t rounds = 0;
  for (int64_t slot = 0; slot < plan_.slots(plan_.rank); ++slot)
    rounds += plan_.micro_batch(plan_.rank, slot) >= 0;
  return rounds * (rows_.elements() - share()) * leaf_bytes() + sent_across();
}

void NodeRounds::begin() {
  LS_CHECK(flying_ < 0 && !adding_, "the rounds of the last step were not waited for");
  buffers_->allocate(*device_);
  fold_.begin(*device_);
  next_slot_ = 0;
  adding_ = true, summed_ = false;
}

void NodeRounds::add(int64_t slot, const std::vector<const void*>& gradients, Group& data, Stream& stream,
                     const std::string& label) {
  LS_CHECK(adding_ && slot == next_slot_ && slot < plan_.slots(plan_.rank), "round ", slot,
           " was added where ", next_slot_, " of ", plan_.slots(plan_.rank), " is due");
  LS_CHECK(data.size() == plan_.ranks && data.rank() == plan_.rank && nodes_.inside && nodes_.across,
           "the plan is for rank ", plan_.rank, " of ", plan_.ranks, " on hosts of ", nodes_.ranks,
           ", the group has rank ", data.rank(), " of ", data.size());
  complete(stream);
  turn_->take(this, stream);
  ++next_slot_;
  set_ = &buffers_->take(stream);
  set_->user = this;
  flying_ = slot;
  label_ = str(label, " round ", slot);
  const bool mine = plan_.micro_batch(plan_.rank, slot) >= 0;
  if (mine) rows_.pack(gradients, set_->send.data(), *reductions_, stream);
  const auto seats = static_cast<size_t>(nodes_.ranks), own = static_cast<size_t>(seat());
  std::vector<int64_t> send(seats, 0), receive(seats, 0);
  for (size_t s = 0; s < seats; ++s) {
    if (s == own) continue;
    if (mine) send[s] = seat_chunks_[s];
    if (static_cast<int64_t>(s) < of_host(host(), slot)) receive[s] = seat_chunks_[own];
  }
  inside_ =
      nodes_.inside->start(AllToAll{set_->send.data(), set_->receive.data(), send, receive, rows_.dtype()},
                           label_ + " inside", stream);
}

void NodeRounds::advance(Stream& stream) {
  if (flying_ < 0 || !inside_) return;
  inside_->wait(stream);
  inside_.reset();
  const int64_t share = this->share();
  trees_ = trees_of(flying_);
  const std::byte* received = set_->receive.data();
  float* added = sums_in(*set_);
  std::vector<Reductions::Source> leaves;  // of the host's ranks
  for (int64_t s = 0; s < of_host(host(), flying_); ++s) {
    leaves.emplace_back(
        s == seat() ? set_->send.data() + (rows_.elements() - share) * leaf_bytes() : received,
        rows_.dtype());
    if (s != seat()) received += share * leaf_bytes();
  }
  const auto& trees = trees_[host()];
  std::vector<const float*> blocks;
  for (size_t t = 0; t < trees.size(); ++t) blocks.push_back(added + static_cast<int64_t>(t) * share);
  const auto sums = sums_over(
      trees, share, [&](const auto& source) { return leaves[source.member]; },
      [&](size_t t) { return added + static_cast<int64_t>(t) * share; });
  if (share > 0 && !sums.empty()) reductions_->sum(sums, stream);
  across_ = std::make_unique<BlockExchange>(across_of(trees_));
  across_->start(*nodes_.across, blocks, added + share * most_trees_, label_ + " across", stream);
}

void NodeRounds::complete(Stream& stream) {
  if (flying_ < 0) return;
  advance(stream);
  across_->wait(stream);
  std::vector<LaneBlock> blocks;
  std::vector<const float*> sums;
  for (size_t h = 0; h < trees_.size(); ++h)
    for (size_t t = 0; t < trees_[h].size(); ++t) {
      blocks.push_back(trees_[h][t].block);
      sums.push_back(across_->chunk({static_cast<int>(h), static_cast<int>(t)}));
    }
  fold_.push_blocks(blocks, sums, stream);
  flying_ = -1;
  set_->user = nullptr;
  set_ = nullptr;
}

void NodeRounds::end(Group&, Stream&, const std::string&) {
  LS_CHECK(adding_ && next_slot_ == plan_.slots(plan_.rank), "the end came after ", next_slot_, " of ",
           plan_.slots(plan_.rank), " rounds");
}

void NodeRounds::wait(Stream& stream) {
  LS_CHECK(adding_ && next_slot_ == plan_.slots(plan_.rank), "a wait after ", next_slot_, " of ",
           plan_.slots(plan_.rank), " rounds");
  turn_->take(nullptr, stream);  // the first wait starts the last bucket's second stage
  complete(stream);
  adding_ = false, summed_ = true;
}

Reductions::Sum NodeRounds::addends_of(size_t tensor) const {
  LS_CHECK(summed_, "a sum before its rounds were waited for");
  Reductions::Sum out;
  out.rows = rows_.owned_rows(tensor).second;
  out.width = rows_.width(tensor);
  fold_.finish(rows_.at(tensor), out);
  return out;
}

}  // namespace lockstep
