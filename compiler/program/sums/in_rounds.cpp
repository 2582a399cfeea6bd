// A bucket's sum in rounds: each round sends the gradients of one micro-batch per rank, and the owner adds
// them.
#include <numeric>
#include <optional>

#include "compiler/program/sums/parts.h"
#include "core/base/error.h"

namespace lockstep::compiler {

namespace {
using Kind = Region::Kind;
using Verb = StartCollective::Verb;
using Tree = SumTrees::Tree;

// Gradients go to the owners of their rows after every micro-batch (ZeRO 2, 3), or after the only micro-batch
// of each rank.
class InRounds : public BucketSum {
 public:
  InRounds(ProgramWriter& writer, const SumPlan& plan, SumTurns& turns, size_t bucket, std::string label,
           PackedRows rows)
      : BucketSum(writer, plan, std::move(label), std::move(rows)),
        turns_(turns),
        set_at_(turns.set_of(bucket)),
        fold_(writer, plan, rows_.chunk(), at_once(), label_) {
    const int64_t chunk = rows_.chunk();
    int64_t receive = plan.invariant ? chunk * (plan.lanes.ranks - 1) * leaf() : chunk * kFloat;
    if (plan.seats) receive = plan_host_bytes();
    if (turns_.sets.empty())
      for (size_t s = 0; s < SumTurns::kSets; ++s)
        turns_.sets.push_back({writer_.region(Kind::staging, str("send ", s), 0),
                               writer_.region(Kind::staging, str("receive ", s), 0)});
    auto& set = turns_.sets[set_at_];
    writer_.fit(set.send, rows_.elements() * leaf());
    writer_.fit(set.receive, receive);
  }

  void add(int64_t slot, const std::vector<Span>& gradients) override {
    complete();
    if (plan_.seats) turns_.stage(this);
    auto& set = turns_.sets[set_at_];
    if (set.user) set.user->complete();
    set.user = this;
    set_ = &set, flying_ = slot;
    const bool mine = plan_.lanes.micro_batch(plan_.lanes.rank, slot) >= 0;
    if (mine) pack(gradients);
    if (!mine && !plan_.invariant) writer_.put(ZeroSpan{set.send.part(0, rows_.elements() * leaf())});
    flight_ = plan_.seats ? start_inside(slot, mine) : start_flat(slot, mine);
  }

  void advance() override {
    if (flying_ < 0 || !plan_.seats || flight_ < 0) return;
    writer_.finish(flight_);
    trees_ = trees_of(flying_);
    int64_t received = 0;
    std::vector<Tree::Source> leaves;  // of the host's ranks
    for (int64_t s = 0; s < of_host(host(), flying_); ++s) {
      const bool own = s == seat();
      leaves.push_back({own ? set_->send.part((rows_.elements() - share_) * leaf(), share_ * leaf())
                            : set_->receive.part(received, share_ * leaf()),
                        rows_.dtype()});
      if (!own) received += share_ * leaf();
    }
    const auto& trees = trees_[host()];
    std::vector<Span> sums;
    for (size_t t = 0; t < trees.size(); ++t) sums.push_back(host_sum(static_cast<int64_t>(t), share_));
    if (share_ > 0 && !trees.empty())
      writer_.put(sums_over(
          trees, share_, [&](const auto& from) { return leaves[from.member]; },
          [&](size_t t) { return sums[t]; }));
    across_.emplace(across_of(trees_));
    across_->start(writer_, std::move(sums), host_sum(most_trees_, across_->received()),
                   str(label_, " round ", flying_, " across"));
  }

  void complete() override {
    if (flying_ < 0) return;
    advance();
    writer_.finish(flight_);
    std::optional<std::vector<Fold::Rows>> ends;
    if (flying_ + 1 == plan_.lanes.slots(plan_.lanes.rank)) ends = own_rows();
    if (plan_.seats)
      push_subtrees(ends ? &*ends : nullptr);
    else
      fold_.push_leaves(leaves_of_round(), ends ? &*ends : nullptr);
    flying_ = -1;
    set_->user = nullptr;
    set_ = nullptr;
  }

  void wait() override {
    if (plan_.seats) turns_.stage(nullptr);
    complete();
  }
  bool is_whole() const override { return fold_.is_whole(); }

 private:
  int64_t leaf() const { return static_cast<int64_t>(size_of(plan_.sent(rows_.dtype()))); }
  int seat() const { return plan_.lanes.rank % plan_.seats; }
  int host() const { return plan_.lanes.rank / plan_.seats; }
  // After the leaves of the host's other ranks, aligned for f32: the element `at` * share_.
  Span host_sum(int64_t at, int64_t elements) const {
    return set_->receive.part(leaves_end() + at * share_ * kFloat, elements * kFloat);
  }
  int64_t leaves_end() const { return (share_ * (plan_.seats - 1) * leaf() + 255) / 256 * 256; }

  Tree addends_of(size_t tensor) const override {
    Tree out;
    out.rows = rows_.owned_rows(tensor).second, out.width = rows_.width(tensor);
    fold_.finish(rows_.at(tensor), out.rows * out.width, out);
    return out;
  }

  std::vector<Fold::Rows> own_rows() const {
    std::vector<Fold::Rows> out;
    for (size_t t = 0; t < rows_.tensors(); ++t)
      if (const int64_t rows = rows_.owned_rows(t).second; rows > 0)
        out.push_back({rows_.at(t), rows, rows_.width(t), row_squares_.empty() ? Span{} : row_squares_[t]});
    return out;
  }

  void pack(const std::vector<Span>& gradients) {
    auto pieces = bucket_pieces(rows_, gradients);
    if (leaf() == kFloat)
      return writer_.put(Accumulate{std::move(pieces), {}, set_->send.part(0, rows_.elements() * kFloat)});
    CopySpans copies;
    for (const auto& piece : pieces)
      copies.copies.push_back({set_->send.part(piece.at * leaf(), piece.from.bytes), piece.from});
    writer_.put(std::move(copies));
  }

  int start_flat(int64_t slot, bool mine) {
    const LanePlan& lanes = plan_.lanes;
    const std::string label = str(label_, " round ", slot);
    const Span send = set_->send.part(0, rows_.elements() * leaf());
    if (!plan_.invariant)
      return writer_.start({.verb = Verb::reduce_scatter,
                            .along = "data",
                            .dtype = DType::f32,
                            .send = rows_.chunks(),
                            .from = send,
                            .to = set_->receive.part(0, rows_.chunk() * kFloat),
                            .label = label});
    StartCollective all{.verb = Verb::all_to_all, .along = "data", .dtype = rows_.dtype()};
    all.send.assign(rows_.chunks().size(), 0), all.receive = all.send;
    for (int r = 0; r < lanes.ranks; ++r) {
      if (r == lanes.rank) continue;
      if (mine) all.send[r] = rows_.chunk(r);
      if (lanes.micro_batch(r, slot) >= 0) all.receive[r] = rows_.chunk();
    }
    return start_leaves(std::move(all), label);
  }
  int start_inside(int64_t slot, bool mine) {
    StartCollective all{.verb = Verb::all_to_all, .along = "inside_hosts", .dtype = rows_.dtype()};
    all.send.assign(plan_.seats, 0), all.receive = all.send;
    for (int s = 0; s < plan_.seats; ++s) {
      if (s == seat()) continue;
      if (mine) all.send[s] = seat_chunks_[s];
      if (s < of_host(host(), slot)) all.receive[s] = share_;
    }
    return start_leaves(std::move(all), str(label_, " round ", slot, " inside"));
  }
  int start_leaves(StartCollective all, std::string label) {
    all.label = std::move(label);
    all.from = set_->send.part(0, std::accumulate(all.send.begin(), all.send.end(), int64_t{0}) * leaf());
    all.to =
        set_->receive.part(0, std::accumulate(all.receive.begin(), all.receive.end(), int64_t{0}) * leaf());
    return writer_.start(std::move(all));
  }

  std::vector<Tree::Source> leaves_of_round() const {
    const LanePlan& lanes = plan_.lanes;
    const int64_t bytes = rows_.chunk() * leaf();
    if (!plan_.invariant) return {{set_->receive.part(0, bytes), DType::f32}};
    std::vector<Tree::Source> leaves;
    int64_t received = 0;
    for (int r = 0; r < lanes.ranks && lanes.micro_batch(r, flying_) >= 0; ++r) {
      const bool own = r == lanes.rank;
      leaves.push_back(
          {own ? set_->send.part(rows_.chunk_at() * leaf(), bytes) : set_->receive.part(received, bytes),
           rows_.dtype()});
      if (!own) received += bytes;
    }
    return leaves;
  }
  void push_subtrees(const std::vector<Fold::Rows>* ends) {
    across_->wait(writer_);
    std::vector<LaneBlock> blocks;
    std::vector<Span> sums;
    for (size_t h = 0; h < trees_.size(); ++h)
      for (size_t t = 0; t < trees_[h].size(); ++t) {
        blocks.push_back(trees_[h][t].block);
        sums.push_back(across_->chunk({static_cast<int>(h), static_cast<int>(t)}));
      }
    fold_.push_blocks(blocks, sums, ends);
  }

  // Number of micro-batches that a host runs in a slot.
  int64_t of_host(int of, int64_t slot) const {
    const int64_t first = slot * plan_.lanes.ranks + static_cast<int64_t>(of) * plan_.seats;
    return std::clamp<int64_t>(plan_.lanes.micro_batches - first, 0, plan_.seats);
  }
  std::vector<std::vector<BlockTree>> trees_of(int64_t slot) const {
    const LanePlan& lanes = plan_.lanes;
    std::vector<std::vector<BlockTree>> out;
    for (int h = 0; h < lanes.ranks / plan_.seats; ++h)
      out.push_back(trees_over_leaves(slot * lanes.ranks + static_cast<int64_t>(h) * plan_.seats,
                                      of_host(h, slot), lanes.per_lane()));
    return out;
  }
  SubtreeExchange across_of(const std::vector<std::vector<BlockTree>>& trees) const {
    std::vector<std::vector<LaneBlock>> blocks(trees.size());
    for (size_t h = 0; h < trees.size(); ++h)
      for (const auto& tree : trees[h]) blocks[h].push_back(tree.block);
    return {"across_hosts", std::move(blocks), rail_chunks_, host()};
  }
  // How many leaves, or subtrees of all hosts, one pass adds.
  int64_t at_once() const {
    const LanePlan& lanes = plan_.lanes;
    if (!plan_.seats) return lanes.ranks;
    size_t most = 0;
    for (int64_t slot = 0; slot < lanes.slots(lanes.rank); ++slot) {
      size_t blocks = 0;
      for (const auto& trees : trees_of(slot)) blocks += trees.size();
      most = std::max(most, blocks);
    }
    return most + counter_depth(lanes.lanes) <= plan_.limits.sources ? lanes.ranks : 1;
  }
  int64_t plan_host_bytes() {
    const LanePlan& lanes = plan_.lanes;
    seat_chunks_.assign(plan_.seats, 0);
    for (int r = 0; r < lanes.ranks; ++r) {
      seat_chunks_[r % plan_.seats] += rows_.chunk(r);
      if (r % plan_.seats == seat()) rail_chunks_.push_back(rows_.chunk(r));
    }
    share_ = seat_chunks_[seat()];
    int64_t from_across = 0;
    for (int64_t slot = 0; slot < lanes.slots(lanes.rank); ++slot) {
      const auto trees = trees_of(slot);
      most_trees_ = std::max(most_trees_, static_cast<int64_t>(trees[host()].size()));
      from_across = std::max(from_across, across_of(trees).received());
      for (const auto& tree : trees[host()]) check_addends(tree.sources.size(), plan_);
    }
    return leaves_end() + (share_ * most_trees_ + from_across) * kFloat;
  }

  SumTurns& turns_;
  size_t set_at_;
  std::vector<int64_t> seat_chunks_, rail_chunks_;
  int64_t share_ = 0, most_trees_ = 0;
  Fold fold_;
  SumTurns::Set* set_ = nullptr;
  int64_t flying_ = -1;  // the slot whose round is in progress
  int flight_ = -1;
  std::vector<std::vector<BlockTree>> trees_;
  std::optional<SubtreeExchange> across_;
};
}  // namespace

std::unique_ptr<BucketSum> in_rounds(ProgramWriter& writer, const SumPlan& plan, SumTurns& turns,
                                     size_t bucket, std::string label, PackedRows rows) {
  return std::make_unique<InRounds>(writer, plan, turns, bucket, std::move(label), std::move(rows));
}

}  // namespace lockstep::compiler
