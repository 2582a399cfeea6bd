// What a bucket's sum holds and sends, and what it refuses.
#include "compiler/reduce/block_tree.h"
#include "tests/ranks/bucket_sum_case.h"
#include "tests/ranks/expect_error.h"

namespace lockstep {

using namespace compiler;

namespace {

struct Bytes {
  int64_t held = 0, staged = 0, sent = 0, across = 0;
  bool operator==(const Bytes&) const = default;
};
void PrintTo(const Bytes& bytes, std::ostream* out) {
  *out << "held " << bytes.held << ", staged " << bytes.staged << ", sent " << bytes.sent << ", across "
       << bytes.across;
}
// Of the sums of one bucket on one rank.
Bytes bytes_of(const Shapes& shapes, const LanePlan& plan, SumCase how = {}) {
  how.buckets = {shapes};
  const StepProgram program = sum_program(plan, RowOwners::alone(plan.ranks), how).program;
  Bytes out;
  for (const Region& region : program.regions) {
    out.held += region.kind == Region::Kind::partial ? region.bytes : 0;
    out.staged += region.kind == Region::Kind::staging ? region.bytes : 0;
  }
  for (const Instr& instr : program.instrs)
    if (const auto* start = std::get_if<StartCollective>(&instr.what)) {
      const bool across = start->along == "across_hosts", inside = start->along == "inside_hosts";
      const int64_t members = across ? plan.ranks / how.seats : inside ? how.seats : plan.ranks;
      const int64_t self = across ? plan.rank / how.seats : inside ? plan.rank % how.seats : plan.rank;
      const int64_t bytes = sent_bytes(*start, members, self);
      out.sent += bytes;
      if (across) out.across += bytes;
    }
  return out;
}

TEST(BucketSumBytes, AreThoseOfTheTree) {
  const Shapes shapes{{12, 100}};
  // Of one micro-batch on one rank nothing is held: its gradients are the sums.
  EXPECT_EQ(bytes_of(shapes, {1, 1, 1, 0}), (Bytes{}));
  // log2(lanes) partials where a gradient is a lane and merges straight, one more where a lane is folded.
  EXPECT_EQ(bytes_of(shapes, {16, 16, 1, 0}), (Bytes{.held = 4 * 4800}));
  EXPECT_EQ(bytes_of(shapes, {32, 16, 1, 0}), (Bytes{.held = 5 * 4800}));
  // Four ranks with one subtree each: a quarter from each of three others comes in, three quarters go out.
  EXPECT_EQ(bytes_of(shapes, {4, 4, 4, 1}), (Bytes{.held = 4800 + 3600, .sent = 3600}));
  EXPECT_EQ(bytes_of(shapes, {2, 2, 4, 3}).sent, 0);
}

// One partial whatever the lanes, and the own quarter of the sum; three quarters of the bucket go out, also
// from an idle rank.
TEST(BucketSumBytes, OfFreeNumerics) {
  const Shapes shapes{{12, 100}};
  const SumCase free{.invariant = false};
  EXPECT_EQ(bytes_of(shapes, {16, 16, 1, 0}, free), (Bytes{.held = 4800}));
  EXPECT_EQ(bytes_of(shapes, {16, 16, 4, 1}, free), (Bytes{.held = 4800 + 1200, .sent = 3600}));
  EXPECT_EQ(bytes_of(shapes, {2, 2, 4, 3}, free), (Bytes{.held = 4800 + 1200, .sent = 3600}));
}

// 8 lanes on 4 ranks: after each round one partial is left (4 lanes, then 8). 2 on 3 lanes of 2
// micro-batches: a fold beside the counter. Staged is what is packed and what arrives.
TEST(BucketSumBytes, OfRounds) {
  auto of = [](LanePlan plan, SumCase how = {}) {
    plan.order = LaneOrder::interleaved;
    return bytes_of({{8, 100}}, plan, how);
  };
  auto staged = [](int64_t ranks) { return 4 * (800 + 800 / ranks * (ranks - 1)); };
  EXPECT_EQ(of({8, 8, 4, 0}), (Bytes{.held = 800, .staged = staged(4), .sent = 2 * 600 * 4}));
  EXPECT_EQ(of({8, 8, 2, 0}), (Bytes{.held = 3200, .staged = staged(2), .sent = 4 * 400 * 4}));
  EXPECT_EQ(of({6, 3, 2, 0}).held, 1600) << "the pass of the last round ends the sum";
  EXPECT_EQ(of({6, 6, 4, 3}).sent, 600 * 4) << "6 micro-batches on 4 ranks: the last one is idle in round 1";
  EXPECT_EQ(of({4, 4, 4, 0}).sent, 600 * 4);
  EXPECT_EQ(of({4, 4, 4, 0}, {.dtype = DType::bf16}).sent, 600 * 2) << "as they are";
  EXPECT_EQ(of({4, 4, 4, 0}, {.invariant = false, .dtype = DType::bf16}).sent, 600 * 4) << "added on the way";
  EXPECT_EQ(bytes_of({{8, 100}}, {4, 4, 4, 0}, {.dtype = DType::bf16}).sent, 600 * 4) << "partial sums";
}

TEST(BucketSumBytes, BucketsTakeTurnsInTwoSetsOfStaging) {
  const auto staged = [](std::vector<Shapes> buckets) {
    const LanePlan plan{8, 8, 4, 1, LaneOrder::interleaved};
    const StepProgram program =
        sum_program(plan, RowOwners::alone(4), {.buckets = std::move(buckets), .dtype = DType::bf16}).program;
    int64_t bytes = 0;
    for (const Region& region : program.regions)
      bytes += region.kind == Region::Kind::staging ? region.bytes : 0;
    return bytes;
  };
  const Shapes large{{8, 100}}, small{{8, 4}};
  const int64_t of_large = 2 * (800 + 600), of_small = 2 * (32 + 24);
  EXPECT_EQ(staged({large}), of_large);
  EXPECT_EQ(staged({large, small, large}), of_large + of_small) << "the first and the last in one set";
  EXPECT_EQ(staged({large, large, small}), 2 * of_large);
}

// Two large buckets lie in one set, where a small one in between may be waited for.
TEST(BucketSumBytes, LargeBucketsShareASet) {
  SumTurns turns;
  turns.share_sets({16, 2, 2, 1, 2, 32});
  EXPECT_EQ(turns.seam, 4u) << "behind the smallest";
  EXPECT_EQ(turns.set_of(0), turns.set_of(5));
  EXPECT_EQ(turns.set_of(3), turns.set_of(4));
  EXPECT_NE(turns.set_of(0), turns.set_of(1));
  for (const std::vector<int64_t>& alternate : std::vector<std::vector<int64_t>>{
           {}, {7}, {0, 0}, {4, 1, 1}, {16, 2, 16}, {16, 16, 2}, {8, 8, 8, 8}, {16, 15, 15, 17}}) {
    SumTurns plain;
    plain.share_sets(alternate);
    EXPECT_EQ(plain.seam, SIZE_MAX) << str(alternate);
  }
}

// Two exchanges are under way at a time: the third waits for the first, whose staging it packs into.
TEST(BucketSumBytes, ABucketWaitsForTheOneBeforeTheLast) {
  const StepProgram program = sum_program({4, 4, 4, 1, LaneOrder::interleaved}, RowOwners::alone(4),
                                          {.buckets = {{{8, 4}}, {{8, 4}}, {{8, 4}}}})
                                  .program;
  std::map<int, std::string> labels;
  std::vector<std::string> order;
  for (const Instr& instr : program.instrs) {
    if (const auto* start = std::get_if<StartCollective>(&instr.what))
      order.push_back("start " + (labels[start->flight] = start->label));
    if (const auto* wait = std::get_if<Wait>(&instr.what)) order.push_back("wait " + labels[wait->flight]);
  }
  EXPECT_EQ(order, (std::vector<std::string>{"start exchange 0 round 0", "start exchange 1 round 0",
                                             "wait exchange 0 round 0", "start exchange 2 round 0",
                                             "wait exchange 1 round 0", "wait exchange 2 round 0"}));
}

// 8 ranks on 2 hosts. Flat: 7/8 of a bucket leave a rank for each subtree that it has, 4/7 of that for the
// other host. Host by host: 3/4 inside for each, and across a host's sums, of which a rank sends half of its
// quarter.
TEST(BucketSumBytes, AcrossHostsASumTravelsOnce) {
  const Shapes shapes{{64, 100}};
  const int64_t whole = 6400 * 4;
  auto sent = [&](const LanePlan& plan, int seats) {
    const Bytes bytes = bytes_of(shapes, plan, {.seats = seats});
    return std::pair(bytes.sent, bytes.across);
  };
  EXPECT_EQ(sent({8, 8, 8, 0}, 0), std::pair(whole * 7 / 8, int64_t{0}));
  EXPECT_EQ(sent({8, 8, 8, 0}, 4), std::pair(whole * 3 / 4 + whole / 8, whole / 8));
  EXPECT_EQ(sent({8, 8, 8, 0}, 8), std::pair(whole * 7 / 8, int64_t{0})) << "one host";
  const LanePlan rounds{16, 16, 8, 0, LaneOrder::interleaved};
  EXPECT_EQ(sent(rounds, 0).first, 2 * whole * 7 / 8);
  EXPECT_EQ(sent(rounds, 4), std::pair(2 * (whole * 3 / 4 + whole / 8), 2 * whole / 8));
  // Lanes of 8 micro-batches are on two hosts: nothing can be added before it has crossed.
  EXPECT_EQ(sent({16, 2, 8, 0, LaneOrder::interleaved}, 4).second, 0);
}

TEST(BucketSumBytes, TreesOverTheMicroBatchesOfAHost) {
  auto trees = trees_over_leaves(6, 6, 2);  // lanes 3, 4 and 5
  ASSERT_EQ(trees.size(), 2u);
  EXPECT_EQ(trees[0].block, (LaneBlock{3, 1}));
  EXPECT_EQ(trees[1].block, (LaneBlock{4, 2}));
  EXPECT_EQ(trees[0].merges, (std::vector<int>{0, 1}));
  EXPECT_EQ(trees[1].merges, (std::vector<int>{0, 1, 0, 2}));
  EXPECT_EQ(trees[1].sources[3].member, 5);
  EXPECT_TRUE(trees_over_leaves(8, 0, 2).empty());
  EXPECT_THROW(trees_over_leaves(3, 2, 2), InternalError);
}

TEST(BucketSumBytes, WhatIsNoBucketIsRefused) {
  EXPECT_THROW(bytes_of({Shape{}}, {1, 1, 1, 0}), InternalError);
  EXPECT_THROW(bytes_of({{8, 100}}, {4, 4, 4, 0}, {.dtype = DType::f16}), InternalError);
  expect_error<UserError>([] { bytes_of({{2}}, {4, 3, 1, 0}); },
                          {"batch.lanes is 3", "4 micro-batches", "2 or 4"});
}

TEST(BucketSumBytes, MorePartialsThanTheDeviceAddsAreRefused) {
  auto make = [&](const LanePlan& plan, bool invariant = true) {
    bytes_of({{2}}, plan, {.invariant = invariant, .limits = {129, 3, "CPU"}});
  };
  // A rank with one lane sends one partial.
  make({129, 129, 129, 7});
  make({130, 130, 130, 7}, false);
  for (int rank : {0, 129})
    expect_error<UserError>([&] { make({130, 130, 130, rank}); },
                            {"batch.lanes 130 on 130 data ranks leaves 130 partial sums of a gradient for "
                             "one rank to add, and CPU adds at most "
                             "129; set batch.lanes to at most 129 (a divisor of the 130 micro-batches), use "
                             "fewer ranks, or set train.numerics "
                             "to \"free\""});
  // 8 lanes end in 3 merges; where a lane has several micro-batches its own sum is a fourth.
  make({8, 8, 1, 0});
  make({16, 4, 1, 0});
  expect_error<UserError>(
      [&] { make({16, 16, 1, 0}); },
      {"batch.lanes 16 on 1 data ranks adds 4 partial sums to one gradient at once, and CPU adds at most 3; "
       "set batch.lanes to "
       "a smaller divisor of the 16 micro-batches, use more ranks, or set train.numerics to \"free\""});
  expect_error<UserError>([&] { make({16, 8, 1, 0}); },
                          {"batch.lanes 8 on 1 data ranks adds 4 partial sums"});
}

TEST(RowOwners, EveryRowHasOneOwnerAsMomentsLie) {
  for (auto words : {Mesh{{2, 3}, {"dp_replicate", "dp_shard"}}, Mesh{{3, 2}, {"dp_shard", "dp_replicate"}},
                     Mesh{{2, 3, 2}, {"dp_replicate", "dp_shard", "tp"}}}) {
    const RowOwners owners = RowOwners::of(words);
    Layout layout;
    layout.set(words.dim("dp_shard"), Shard(0));
    layout.set(words.dim("dp_replicate"), Shard(0));
    for (int64_t rank = 0; rank < words.size(); ++rank) {
      auto [first, count] = owners.rows(11, static_cast<int>(words.data_rank(rank)));
      const auto pieces = local_pieces(layout, words, {11}, words.coordinate(rank));
      ASSERT_EQ(local_shape(layout, words, {11}, words.coordinate(rank)), (Shape{count}));
      if (count) { EXPECT_EQ(pieces[0].global.offset[0], first); }
    }
  }
}

}  // namespace
}  // namespace lockstep
