// Lanes on paper: ranges, subtrees, and the order of additions, with real float sums.
#include "compiler/reduce/lanes.h"

#include <gtest/gtest.h>

#include <bit>
#include <functional>
#include <random>
#include <span>

#include "core/base/error.h"

namespace lockstep {

using namespace compiler;

namespace {

// The definition, by itself: lanes are leaves of a tree padded to a power of two; a half without leaves is
// skipped.
float padded_tree(std::span<const float> leaves, size_t first, size_t size) {
  if (size == 1) return leaves[first];
  const float left = padded_tree(leaves, first, size / 2);
  return first + size / 2 < leaves.size() ? left + padded_tree(leaves, first + size / 2, size / 2) : left;
}
float tree(std::span<const float> leaves) { return padded_tree(leaves, 0, std::bit_ceil(leaves.size())); }

// A counter with its values.
struct Stream {
  void push(LaneBlock block, float value) {
    for (int merges = counter.push(block); merges > 0; --merges)
      value = values.back() + value, values.pop_back();
    values.push_back(value);
  }
  float finish() {
    for (int merges = counter.remaining(); merges > 0; --merges) {
      const float right = values.back();
      values.pop_back();
      values.back() = values.back() + right;
    }
    return values.back();
  }
  LaneCounter counter;
  std::vector<float> values;
};

std::vector<float> fold_lanes(const LanePlan& plan, const std::vector<float>& micro) {
  std::vector<float> lanes;
  for (int64_t m = 0; m < plan.micro_batches; ++m) {
    if (m % plan.per_lane() == 0)
      lanes.push_back(micro[static_cast<size_t>(m)]);
    else
      lanes.back() += micro[static_cast<size_t>(m)];
  }
  return lanes;
}

// Each rank counts its own lanes; its blocks continue one counter.
float distributed(const LanePlan& plan, const std::vector<float>& lanes) {
  Stream whole;
  for (int r = 0; r < plan.ranks; ++r) {
    auto [first, count] = plan.lane_range(r);
    Stream own;
    for (int64_t lane = first; lane < first + count; ++lane)
      own.push({lane, 1}, lanes[static_cast<size_t>(lane)]);
    EXPECT_EQ(own.counter.blocks(), plan.blocks(r));
    for (size_t b = 0; b < own.values.size(); ++b) whole.push(own.counter.blocks()[b], own.values[b]);
  }
  return whole.finish();
}

TEST(Lanes, SameBitsForEveryRankCount) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  int64_t plain_differs = 0, other_lanes_differ = 0, cases = 0;
  for (int64_t micro_batches = 1; micro_batches <= 129; ++micro_batches) {
    std::vector<float> micro(static_cast<size_t>(micro_batches));
    for (float& x : micro) x = normal(random);
    float plain = micro[0];
    for (size_t m = 1; m < micro.size(); ++m) plain += micro[m];
    for (int64_t lanes = 1; lanes <= micro_batches; ++lanes) {
      if (micro_batches % lanes) continue;
      const auto leaves = fold_lanes({micro_batches, lanes, 1, 0}, micro);
      const uint32_t want = std::bit_cast<uint32_t>(tree(leaves));
      for (int ranks = 1; ranks <= 9; ++ranks) {
        LanePlan plan{micro_batches, lanes, ranks, 0};
        ASSERT_EQ(std::bit_cast<uint32_t>(distributed(plan, leaves)), want)
            << micro_batches << " micro-batches, " << lanes << " lanes, " << ranks;
        ++cases;
      }
      if (lanes == 1) {
        EXPECT_EQ(std::bit_cast<uint32_t>(plain), want);
      } else {
        plain_differs += std::bit_cast<uint32_t>(plain) != want;
      }
      other_lanes_differ += std::bit_cast<uint32_t>(tree(micro)) != want;
    }
  }
  EXPECT_GT(cases, 5000);
  // The comparison above can fail: another order gives other bits in many of these cases.
  EXPECT_GT(plain_differs, 100);
  EXPECT_GT(other_lanes_differ, 100);
}

TEST(Lanes, AnAbsentLeafIsNotAZero) {
  const std::vector<float> leaves{-0.0f, -0.0f, -0.0f};
  EXPECT_TRUE(std::signbit(distributed({3, 3, 2, 0}, leaves)));
}

TEST(Lanes, RangesAreWholeLanesInOrder) {
  for (int64_t lanes : {1, 2, 3, 7, 16, 24})
    for (int64_t per_lane : {1, 3})
      for (int ranks = 1; ranks <= 30; ++ranks) {
        LanePlan plan{lanes * per_lane, lanes, ranks, 0};
        int64_t next = 0, least = lanes, most = 0;
        for (int r = 0; r < ranks; ++r) {
          auto [first, count] = plan.lane_range(r);
          auto [micro, number] = plan.micro_batch_range(r);
          EXPECT_EQ(first, next);
          EXPECT_EQ(micro, first * per_lane);
          EXPECT_EQ(number, count * per_lane);
          next += count, least = std::min(least, count), most = std::max(most, count);
        }
        EXPECT_EQ(next, lanes);
        EXPECT_LE(most - least, 1);
      }
}

TEST(Lanes, BlocksAreTheMaximalSubtrees) {
  EXPECT_EQ((LanePlan{16, 16, 1, 0}.blocks(0)), (std::vector<LaneBlock>{{0, 16}}));
  EXPECT_EQ((LanePlan{16, 16, 4, 0}.blocks(2)), (std::vector<LaneBlock>{{8, 4}}));
  EXPECT_EQ((LanePlan{32, 16, 3, 0}.blocks(0)), (std::vector<LaneBlock>{{0, 4}, {4, 2}}));
  EXPECT_EQ((LanePlan{32, 16, 3, 0}.blocks(1)), (std::vector<LaneBlock>{{6, 2}, {8, 2}, {10, 1}}));
  EXPECT_EQ((LanePlan{32, 16, 3, 0}.blocks(2)), (std::vector<LaneBlock>{{11, 1}, {12, 4}}));
  EXPECT_EQ((LanePlan{7, 7, 1, 0}.blocks(0)), (std::vector<LaneBlock>{{0, 4}, {4, 2}, {6, 1}}));
  EXPECT_TRUE((LanePlan{2, 2, 5, 0}.blocks(4)).empty());
}

TEST(Lanes, DefaultDependsOnMicroBatchesAlone) {
  EXPECT_EQ(default_lanes(1), 1);
  EXPECT_EQ(default_lanes(7), 7);
  EXPECT_EQ(default_lanes(16), 16);
  EXPECT_EQ(default_lanes(17), 1);
  EXPECT_EQ(default_lanes(24), 12);
  EXPECT_EQ(default_lanes(36), 12);
  EXPECT_EQ(default_lanes(64), 16);
  EXPECT_EQ(default_lanes(0), 1);
}

std::string refusal(const LanePlan& plan) {
  try {
    plan.check();
  } catch (const UserError& error) { return error.what(); }
  return "";
}

TEST(Lanes, OrderIsRoundsWhereGradientsLieSplitOrOneRoundIsTheStep) {
  const Mesh ddp{{4}, {"dp_replicate"}}, fsdp{{4}, {"dp_shard"}}, one{{1}, {"dp_replicate"}},
      split{{2, 2}, {"dp_replicate", "tp"}};
  const auto whole = LaneOrder::contiguous, rounds = LaneOrder::interleaved;
  EXPECT_EQ(lane_order(ddp, 3, 4, true), rounds) << "one micro-batch on each rank";
  EXPECT_EQ(lane_order(ddp, 3, 4, false), whole);
  EXPECT_EQ(lane_order(ddp, 3, 8, true), whole);
  EXPECT_EQ(lane_order(ddp, 3, 2, true), whole);
  EXPECT_EQ(lane_order(one, 3, 1, true), whole);
  EXPECT_EQ(lane_order(split, 3, 2, true), rounds) << "of data ranks";
  EXPECT_EQ(lane_order(fsdp, 1, 8, true), whole);
  EXPECT_EQ(lane_order(fsdp, 1, 4, true), rounds);
  for (const bool invariant : {true, false})
    for (const int zero : {2, 3}) EXPECT_EQ(lane_order(fsdp, zero, 8, invariant), rounds);
}

TEST(Lanes, RefusesWhatDoesNotDivide) {
  EXPECT_EQ(refusal({24, 8, 5, 4}), "");
  EXPECT_EQ(refusal({24, 5, 1, 0}),
            "batch.lanes is 5, which does not divide the 24 micro-batches of a step (batch.global / "
            "batch.micro); the nearest that does is "
            "4 or 6");
  EXPECT_EQ(refusal({24, 30, 1, 0}),
            "batch.lanes is 30, which does not divide the 24 micro-batches of a step (batch.global / "
            "batch.micro); the nearest that does is 24");
  EXPECT_EQ(refusal({24, 0, 1, 0}),
            "batch.lanes is 0, which does not divide the 24 micro-batches of a step (batch.global / "
            "batch.micro); the nearest that does is 1");
  EXPECT_EQ(
      refusal({0, 1, 1, 0}),
      "a step has 0 micro-batches (batch.global / batch.micro); it needs at least 1: raise batch.global");
  EXPECT_THROW((LanePlan{4, 4, 2, 2}.check()), InternalError);
}

TEST(Lanes, CounterRefusesGapsAndNoSubtrees) {
  LaneCounter counter;
  counter.push({4, 2});
  EXPECT_THROW(counter.push({7, 1}), InternalError);
  EXPECT_THROW(counter.push({6, 3}), InternalError);
  EXPECT_EQ(counter.push({6, 2}), 1);
  EXPECT_EQ(counter.blocks(), (std::vector<LaneBlock>{{4, 4}}));
  counter.clear();
  EXPECT_THROW(counter.push({3, 2}), InternalError);
}

}  // namespace
}  // namespace lockstep
