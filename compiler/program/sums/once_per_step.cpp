// A bucket's sum with one exchange per step: flat, or inside hosts and then across.
#include "compiler/program/sums/parts.h"
#include "core/base/error.h"

namespace lockstep::compiler {

namespace {
using Kind = Region::Kind;
using Verb = StartCollective::Verb;
using Tree = SumTrees::Tree;

// Each rank adds its own micro-batches; there is one exchange per step (DDP, and ZeRO 1 on several ranks).
class OncePerStep : public BucketSum {
 public:
  OncePerStep(ProgramWriter& writer, const SumPlan& plan, SumTurns& turns, std::string label, PackedRows rows)
      : BucketSum(writer, plan, std::move(label), std::move(rows)), turns_(turns) {
    if (plan.invariant) plan_stages();
  }

  void add(int64_t slot, const std::vector<Span>& gradients) override {
    const LanePlan& lanes = plan_.lanes;
    const int64_t micro_batch = lanes.micro_batch(lanes.rank, slot);
    const int64_t lane = micro_batch / lanes.per_lane(), in_lane = micro_batch % lanes.per_lane();
    size_t to = plan_.invariant ? counter_.blocks().size() : 0;
    Accumulate out{pieces_of(gradients), {}, {}};
    if (!plan_.invariant) {
      if (micro_batch > lanes.micro_batch_range(lanes.rank).first) out.lefts.push_back(partial(0));
    } else {
      if (in_lane > 0) out.lefts.push_back(partial(to));
      if (in_lane == lanes.per_lane() - 1) {
        const int merges = counter_.push({lane, 1});
        for (int i = 0; i < merges; ++i) out.lefts.push_back(partial(--to));
      }
    }
    check_lefts(out.lefts.size());
    out.to = partial(to);
    writer_.put(std::move(out));
  }

  // Adds each piece of the gradients of all slots in one pass, in the order of add().
  void add_all(int64_t slot, const std::vector<std::vector<Span>>& gradients) override {
    if (gradients.size() == 1 || gradients.size() + counter_.blocks().size() >= plan_.limits.sources)
      return BucketSum::add_all(slot, gradients);
    const LanePlan& lanes = plan_.lanes;
    const int64_t first = lanes.micro_batch(lanes.rank, slot),
                  begun = lanes.micro_batch_range(lanes.rank).first;
    const bool open = plan_.invariant ? first % lanes.per_lane() > 0 : first > begun;
    const size_t held = (plan_.invariant ? counter_.blocks().size() : 0) + open;
    std::vector<std::vector<Accumulate::Piece>> pieces;  // per slot
    std::vector<int> merges;                             // after each slot's gradient
    for (size_t j = 0; j < gradients.size(); ++j) {
      pieces.push_back(pieces_of(gradients[j]));
      const int64_t micro_batch = first + static_cast<int64_t>(j), in_lane = micro_batch % lanes.per_lane();
      merges.push_back(plan_.invariant ? in_lane > 0 : micro_batch > begun);
      if (plan_.invariant && in_lane == lanes.per_lane() - 1)
        merges.back() += counter_.push({micro_batch / lanes.per_lane(), 1});
    }
    std::vector<SumTrees> sums;  // per partial
    for (size_t k = 0; k < pieces[0].size(); ++k) {
      const auto part = [&](const Span& partial) {
        return floats(partial, pieces[0][k].at,
                      pieces[0][k].from.bytes / static_cast<int64_t>(size_of(pieces[0][k].dtype)));
      };
      std::vector<Tree> trees;
      for (size_t i = 0; i < held; ++i) trees.push_back({.sources = {{part(partial(i))}}, .merges = {0}});
      for (size_t j = 0; j < pieces.size(); ++j)
        push_addend(trees, {pieces[j][k].from, pieces[j][k].dtype}, merges[j]);
      sums.resize(trees.size());
      for (size_t i = 0; i < trees.size(); ++i) {
        Tree& tree = trees[i];
        tree.out = part(partial(i)), tree.rows = 1, tree.width = tree.out.bytes / kFloat;
        if (!tree.stays()) sums[i].trees.push_back(std::move(tree));
      }
    }
    for (SumTrees& sum : sums)
      if (!sum.trees.empty()) writer_.put(std::move(sum));
  }

  void end() override {
    const LanePlan& lanes = plan_.lanes;
    if (!plan_.invariant) {
      if (lanes.ranks == 1) return;
      if (!lanes.slots(lanes.rank)) writer_.put(ZeroSpan{partial(0)});  // a rank without micro-batches
      received_ = writer_.region(Kind::partial, label_ + " received", rows_.chunk() * kFloat);
      flight_ = writer_.start({.verb = Verb::reduce_scatter,
                               .along = "data",
                               .dtype = DType::f32,
                               .send = rows_.chunks(),
                               .from = partial(0),
                               .to = received_,
                               .label = label_});
      return;
    }
    if (plan_.seats) turns_.stage(this);
    std::vector<Span> mine;
    for (size_t b = 0; b < lanes.blocks(lanes.rank).size(); ++b) mine.push_back(partial(b));
    into_.push_back(writer_.region(Kind::partial, label_ + " received", stages_[0].received() * kFloat));
    stages_[0].start(writer_, std::move(mine), into_[0], plan_.seats ? label_ + " inside" : label_);
    at_stage_ = 0;
  }

  void advance() override {
    if (at_stage_ != 0 || stages_.size() < 2) return;
    at_stage_ = 1;
    stages_[0].wait(writer_);
    std::vector<Span> sums;
    for (size_t t = 0; t < of_host_.size(); ++t)
      sums.push_back(writer_.region(Kind::partial, str(label_, " of the host ", t), share_ * kFloat));
    if (share_ > 0 && !of_host_.empty())
      writer_.put(sums_over(
          of_host_, share_, [&](const auto& from) { return Tree::Source{stages_[0].chunk(from)}; },
          [&](size_t t) { return sums[t]; }));
    into_.push_back(
        writer_.region(Kind::partial, label_ + " received across", stages_[1].received() * kFloat));
    stages_[1].start(writer_, std::move(sums), into_[1], label_ + " across");
  }

  void wait() override {
    if (plan_.seats) turns_.stage(nullptr);
    advance();
    if (!stages_.empty()) stages_.back().wait(writer_);
    writer_.finish(flight_);
  }

 private:
  Tree addends_of(size_t tensor) const override {
    Tree out;
    out.rows = rows_.owned_rows(tensor).second, out.width = rows_.width(tensor);
    const int64_t count = out.rows * out.width, at = rows_.at(tensor);
    if (!plan_.invariant) {
      const Span sum =
          plan_.lanes.ranks > 1 ? received_ : floats(partials_[0], rows_.chunk_at(), rows_.chunk());
      out.sources = {{floats(sum, at, count)}};
      out.merges = {0};
      return out;
    }
    for (const auto& source : whole_.sources)
      out.sources.push_back({floats(stages_.back().chunk(source), at, count)});
    out.merges = whole_.merges;
    return out;
  }

  void plan_stages() {
    const LanePlan& lanes = plan_.lanes;
    std::vector<std::vector<LaneBlock>> of_ranks;
    for (int r = 0; r < lanes.ranks; ++r) of_ranks.push_back(lanes.blocks(r));
    if (!plan_.seats) {
      stages_.emplace_back("data", std::move(of_ranks), rows_.chunks(), lanes.rank);
    } else {
      const int seats = plan_.seats, hosts = lanes.ranks / seats, seat = lanes.rank % seats;
      std::vector<std::vector<LaneBlock>> of_hosts, inside;
      std::vector<int64_t> seat_chunks(seats, 0), rail_chunks;
      for (int h = 0; h < hosts; ++h) {
        const std::vector<std::vector<LaneBlock>> ranks(of_ranks.begin() + h * seats,
                                                        of_ranks.begin() + (h + 1) * seats);
        for (int s = 0; s < seats; ++s) seat_chunks[s] += rows_.chunk(h * seats + s);
        auto trees = trees_over(ranks, false);
        of_hosts.emplace_back();
        for (const auto& tree : trees) {
          of_hosts.back().push_back(tree.block);
          check_addends(tree.sources.size(), plan_);
        }
        if (h == lanes.rank / seats) of_host_ = std::move(trees), inside = ranks;
        rail_chunks.push_back(rows_.chunk(h * seats + seat));
      }
      share_ = seat_chunks[seat];
      stages_.emplace_back("inside_hosts", std::move(inside), std::move(seat_chunks), seat);
      stages_.emplace_back("across_hosts", std::move(of_hosts), std::move(rail_chunks), lanes.rank / seats);
    }
    whole_ = trees_over(stages_.back().blocks(), true)[0];
    check_addends(whole_.sources.size(), plan_);
  }

  std::vector<Accumulate::Piece> pieces_of(const std::vector<Span>& gradients) const {
    return bucket_pieces(rows_, gradients);
  }
  const Span& partial(size_t i) {
    while (partials_.size() <= i)
      partials_.push_back(
          writer_.region(Kind::partial, str(label_, " sum ", partials_.size()), rows_.elements() * kFloat));
    return partials_[i];
  }
  void check_lefts(size_t lefts) const {
    if (lefts <= plan_.limits.lefts) return;
    throw UserError(str("batch.lanes ", plan_.lanes.lanes, " on ", plan_.lanes.ranks, " data ranks adds ",
                        lefts, " partial sums to one gradient at once, and ", plan_.limits.device,
                        " adds at most ", plan_.limits.lefts,
                        "; set batch.lanes to a smaller divisor of the ", plan_.lanes.micro_batches,
                        " micro-batches, use more ranks, or set train.numerics to \"free\""));
  }

  SumTurns& turns_;
  LaneCounter counter_;
  std::vector<Span> partials_;  // the i-th subtree of the counter; after the last one, the open lane
  std::vector<SubtreeExchange> stages_;
  std::vector<Span> into_;          // received by each stage
  std::vector<BlockTree> of_host_;  // the trees of this host's subtrees
  BlockTree whole_;                 // over the subtrees that the last stage brings
  int64_t share_ = 0;               // number of elements that this rank adds for its host
  int at_stage_ = -1;
  Span received_;  // free numerics
  int flight_ = -1;
};

}  // namespace

std::unique_ptr<BucketSum> once_per_step(ProgramWriter& writer, const SumPlan& plan, SumTurns& turns,
                                         std::string label, PackedRows rows) {
  return std::make_unique<OncePerStep>(writer, plan, turns, std::move(label), std::move(rows));
}

}  // namespace lockstep::compiler
