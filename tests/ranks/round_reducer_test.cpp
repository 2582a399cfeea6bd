// Gradients that travel after every round: the bits of one rank, for any owners of the rows, and the bytes
// that are held and sent.
#include <gtest/gtest.h>

#include <cmath>

#include "compiler/reduce/gradient_reducer.h"
#include "compiler/reduce/round_reducer.h"
#include "tests/ranks/reduced_case.h"

namespace lockstep {
namespace {

TEST(RoundReducer, TheBitsOfOneRankForAnyRoundsAndOwners) {
  for (auto [micro_batches, lanes] :
       {std::pair<int64_t, int64_t>{1, 1}, {6, 6}, {7, 7}, {8, 8}, {12, 3}, {16, 4}, {10, 5}}) {
    const auto one = reduced({micro_batches, lanes, 1, 0}, RowOwners::alone(1));
    for (auto [replicate, shard] : {std::pair<int, int>{1, 2}, {1, 3}, {2, 2}, {1, 4}, {3, 2}, {2, 4}})
      for (bool fastest : {true, false}) {
        const LanePlan plan{micro_batches, lanes, replicate * shard, 0, LaneOrder::interleaved};
        EXPECT_EQ(reduced(plan, {shard, replicate, fastest}), one)
            << "M " << micro_batches << ", lanes " << lanes << ", " << replicate << " x " << shard
            << (fastest ? "" : ", the other way round");
      }
  }
}

// bf16 gradients travel as they are, half the bytes, and give the bits of what they are as f32: rounds and
// contiguous lanes, hosts, free numerics.
TEST(GradientReducers, HalvesGiveTheBitsOfWhatTheyAreAsF32) {
  for (auto [micro_batches, lanes] : {std::pair<int64_t, int64_t>{1, 1}, {6, 6}, {8, 8}, {12, 3}, {16, 4}}) {
    const auto one = reduced({micro_batches, lanes, 1, 0}, RowOwners::alone(1), {.rounded = true});
    EXPECT_NE(one, reduced({micro_batches, lanes, 1, 0}, RowOwners::alone(1)))
        << "rounding changes something";
    for (int ranks : {1, 2, 3, 4})
      for (LaneOrder order : {LaneOrder::contiguous, LaneOrder::interleaved})
        for (int seats : {0, 2}) {
          if (seats && ranks != 4) continue;
          EXPECT_EQ(reduced({micro_batches, lanes, ranks, 0, order}, RowOwners::alone(ranks),
                            {.seats = seats, .dtype = DType::bf16}),
                    one)
              << "M " << micro_batches << ", lanes " << lanes << ", " << ranks << " ranks, " << seats
              << " a host, " << (order == LaneOrder::contiguous ? "contiguous" : "interleaved");
        }
    for (LaneOrder order : {LaneOrder::contiguous, LaneOrder::interleaved})
      EXPECT_EQ(reduced({micro_batches, lanes, 3, 0, order}, RowOwners::alone(3),
                        {.invariant = false, .dtype = DType::bf16}),
                reduced({micro_batches, lanes, 3, 0, order}, RowOwners::alone(3),
                        {.invariant = false, .rounded = true}));
  }
  auto reductions = cpu_target().make_reductions({});
  auto sent = [&](DType dtype, bool invariant, LaneOrder order) {
    return make_reducers({{{8, 100}}}, {4, 4, 4, 0, order}, RowOwners{4, 1, true}, cpu_device(), *reductions,
                         invariant, {}, {dtype})
        .sent_bytes();
  };
  EXPECT_EQ(sent(DType::f32, true, LaneOrder::interleaved), 600 * 4);
  EXPECT_EQ(sent(DType::bf16, true, LaneOrder::interleaved), 600 * 2);
  EXPECT_EQ(sent(DType::bf16, false, LaneOrder::interleaved), 600 * 4) << "added on the way";
  EXPECT_EQ(sent(DType::bf16, true, LaneOrder::contiguous), 600 * 4) << "partial sums";
  EXPECT_THROW(make_reducers({{{8, 100}}}, {4, 4, 4, 0}, RowOwners{4, 1, true}, cpu_device(), *reductions,
                             true, {}, {DType::f16}),
               InternalError);
}

TEST(RoundReducer, FreeSumsAreClose) {
  const auto want = reduced({7, 7, 1, 0}, RowOwners::alone(1));
  const auto got = reduced({7, 7, 3, 0, LaneOrder::interleaved}, {3, 1, true}, {.invariant = false});
  for (size_t t = 0; t < want.size(); ++t)
    for (size_t i = 0; i < want[t].size(); ++i)
      EXPECT_NEAR(got[t][i], want[t][i], 1e-3 + 1e-5 * std::abs(want[t][i]));
}

// 8 lanes on 4 ranks: after each round one partial is left (4 lanes, then 8). 2 on 3 lanes of 2
// micro-batches: a fold beside the counter.
TEST(RoundReducer, HoldsPartialSumsOfItsOwnRowsAlone) {
  auto reductions = cpu_target().make_reductions({});
  auto held = [&](LanePlan plan) {
    plan.order = LaneOrder::interleaved;
    auto reducers =
        make_reducers({{{8, 100}}}, plan, RowOwners{plan.ranks, 1, true}, cpu_device(), *reductions, true);
    EXPECT_EQ(reducers.shared_bytes, 2 * 4 * (800 + 800 / plan.ranks * (plan.ranks - 1)))
        << "two sets: what is packed, what arrives";
    return reducers.buckets[0]->bytes();
  };
  EXPECT_EQ(held({8, 8, 4, 0}), 800 * 4 / 4);
  EXPECT_EQ(held({8, 8, 2, 0}), 2 * 800 * 4 / 2);
  EXPECT_EQ(held({6, 3, 2, 0}), 2 * 800 * 4 / 2);
  auto sent = make_reducers({{{8, 100}}}, {6, 6, 4, 3, LaneOrder::interleaved}, RowOwners{4, 1, true},
                            cpu_device(), *reductions, true);
  EXPECT_EQ(sent.sent_bytes(), 600 * 4) << "6 micro-batches on 4 ranks: the last one is idle in round 1";
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
