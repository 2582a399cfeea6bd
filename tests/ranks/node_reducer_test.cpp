// The exchange host by host: the bits of one rank, whatever the hosts, and fewer bytes between them.
#include <gtest/gtest.h>

#include "compiler/reduce/lane_fold.h"
#include "tests/ranks/reduced_case.h"

namespace lockstep {
namespace {

const std::vector<std::pair<int64_t, int64_t>> kBatches{
    {1, 1}, {3, 3}, {6, 6}, {7, 7}, {8, 8}, {12, 6}, {12, 12}, {16, 4}, {16, 8}, {24, 24}, {33, 11}};
// Ranks, and of each host.
const std::vector<std::pair<int, int>> kHosts{{4, 2}, {6, 2}, {6, 3}, {8, 2}, {8, 4}, {12, 4}};

TEST(NodeReducer, TheBitsOfOneRankForAnyHosts) {
  for (auto [micro_batches, lanes] : kBatches) {
    const auto one = reduced({micro_batches, lanes, 1, 0}, RowOwners::alone(1));
    for (auto [ranks, seats] : kHosts)
      for (LaneOrder order : {LaneOrder::contiguous, LaneOrder::interleaved})
        EXPECT_EQ(reduced({micro_batches, lanes, ranks, 0, order}, RowOwners::alone(ranks),
                          {.seats = seats, .ends_first = ranks % 4 == 0}),
                  one)
            << "M " << micro_batches << ", lanes " << lanes << ", " << ranks << " ranks, " << seats
            << " a host, " << (order == LaneOrder::contiguous ? "contiguous" : "interleaved");
  }
}

TEST(NodeReducer, RowsAsHsdpOwnsThem) {
  const auto one = reduced({12, 12, 1, 0}, RowOwners::alone(1));
  for (LaneOrder order : {LaneOrder::contiguous, LaneOrder::interleaved})
    for (auto owners : {RowOwners{4, 2, true}, RowOwners{2, 4, true}, RowOwners{4, 2, false}})
      for (int seats : {2, 4})
        EXPECT_EQ(reduced({12, 12, 8, 0, order}, owners, {.seats = seats, .ends_first = true}), one) << seats;
}

// A device that adds few partials at once gets the subtrees of a round one by one.
TEST(NodeReducer, FewPartialsAtOnce) {
  const auto one = reduced({16, 16, 1, 0}, RowOwners::alone(1));
  for (size_t most : {size_t{7}, size_t{8}, size_t{10}})
    EXPECT_EQ(reduced({16, 16, 8, 0, LaneOrder::interleaved}, RowOwners::alone(8),
                      {.seats = 2, .most_sources = most}),
              one)
        << most;
}

// 8 ranks on 2 hosts. Flat: 7/8 of a bucket leave a rank for each subtree that it has, 4/7 of that for the
// other host. Host by host: 3/4 inside for each, and across a host's sums, of which a rank sends half of its
// quarter.
TEST(NodeReducer, AcrossHostsASumTravelsOnce) {
  auto reductions = cpu_target().make_reductions({});
  const std::vector<std::vector<Shape>> bucket{{{64, 100}}};
  auto sent = [&](LanePlan plan, int seats) {
    auto made = make_reducers(bucket, plan, RowOwners::alone(plan.ranks), cpu_device(), *reductions, true,
                              {seats, nullptr, nullptr});
    return std::pair(made.sent_bytes(), made.sent_across());
  };
  const int64_t whole = 6400 * 4;
  EXPECT_EQ(sent({8, 8, 8, 0}, 0), std::pair(whole * 7 / 8, int64_t{-1}));
  EXPECT_EQ(sent({8, 8, 8, 0}, 4), std::pair(whole * 3 / 4 + whole / 8, whole / 8));
  EXPECT_EQ(sent({8, 8, 8, 0}, 8), std::pair(whole * 7 / 8, int64_t{-1})) << "one host";
  EXPECT_EQ(sent({16, 16, 8, 0, LaneOrder::interleaved}, 0).first, 2 * whole * 7 / 8);
  EXPECT_EQ(sent({16, 16, 8, 0, LaneOrder::interleaved}, 4),
            std::pair(2 * (whole * 3 / 4 + whole / 8), 2 * whole / 8));
  // Lanes of 8 micro-batches are on two hosts: nothing can be added before it has crossed.
  EXPECT_EQ(sent({16, 2, 8, 0, LaneOrder::interleaved}, 4).second, -1);
}

TEST(NodeReducer, TreesOverTheMicroBatchesOfAHost) {
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

}  // namespace
}  // namespace lockstep
