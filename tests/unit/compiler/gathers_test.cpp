// When weights are gathered: one bucket ahead of their first reader, freed after use, gathered anew for
// backward.
#include <gtest/gtest.h>

#include "compiler/schedule/gathers.h"

namespace lockstep {
namespace {

// Eight layers: layer i is read by calls 10 i (forward) and 150 - 10 i, 151 - 10 i (backward).
std::vector<compiler::GatherUse> layers(int64_t bytes = 100) {
  std::vector<compiler::GatherUse> out;
  for (int i = 0; i < 8; ++i) out.push_back({i, bytes, {10 * i, 150 - 10 * i, 151 - 10 * i}});
  return out;
}

TEST(Gathers, OneBucketAheadAndTwiceButForTheLastLayers) {
  const compiler::GatherPlan plan = compiler::plan_gathers(layers(), {.bucket_bytes = 100, .reshard = true});
  // The last three layers are not freed between forward and backward: no more than two buckets are read in
  // between.
  EXPECT_EQ(plan.segments.size(), 13u);
  EXPECT_EQ(plan.gathered_bytes(), 1300);
  ASSERT_EQ(plan.buckets.size(), plan.segments.size());
  EXPECT_EQ(plan.buckets[0].start, 0);
  for (size_t b = 1; b < plan.buckets.size(); ++b) {
    EXPECT_EQ(plan.buckets[b].start, plan.buckets[b - 1].wait)
        << "bucket " << b << " is not started when the one before it is waited for";
    EXPECT_LT(plan.buckets[b].start, plan.buckets[b].wait)
        << "bucket " << b << " has no call to travel behind";
  }
  for (const auto& segment : plan.segments) {
    EXPECT_EQ(plan.buckets[static_cast<size_t>(segment.bucket)].wait, segment.first);
    EXPECT_LE(segment.first, segment.last);
  }
}

TEST(Gathers, WithoutReshardingAWeightIsGatheredOnceAndKept) {
  const compiler::GatherPlan plan = compiler::plan_gathers(layers(), {.bucket_bytes = 100, .reshard = false});
  ASSERT_EQ(plan.segments.size(), 8u);
  for (const auto& segment : plan.segments) {
    EXPECT_EQ(segment.first, 10 * segment.input);
    EXPECT_EQ(segment.last, 151 - 10 * segment.input);
  }
}

// What is whole at once: with resharding two buckets at any call, the one that is read and the one that
// travels, and what is kept over the turn.
TEST(Gathers, BytesThatAreWholeAtOnceAreBounded) {
  for (int64_t bucket : {100, 200, 250}) {
    const compiler::GatherPlan plan =
        compiler::plan_gathers(layers(), {.bucket_bytes = bucket, .reshard = true});
    for (int call = 0; call <= 151; ++call) {
      int64_t whole = 0;
      for (const auto& segment : plan.segments)
        if (plan.buckets[static_cast<size_t>(segment.bucket)].start <= call && call <= segment.last)
          whole += segment.bytes;
      EXPECT_LE(whole, 5 * bucket) << "call " << call << ", buckets of " << bucket;
    }
  }
}

TEST(Gathers, SmallWeightsShareABucketAndAnUnreadOneIsNotGathered) {
  const compiler::GatherPlan plan = compiler::plan_gathers(
      {{0, 10, {1, 5}}, {1, 10, {2}}, {2, 10, {}}, {3, 90, {3}}}, {.bucket_bytes = 100, .reshard = true});
  ASSERT_EQ(plan.buckets.size(), 2u);
  EXPECT_EQ(plan.buckets[0].segments, (std::vector<int>{0, 1}));
  EXPECT_EQ(plan.buckets[0].bytes, 20);
  EXPECT_EQ(plan.buckets[1].wait, 3);
  EXPECT_EQ(plan.gathered_bytes(), 110);
  EXPECT_TRUE(compiler::plan_gathers({}, {}).buckets.empty());
}

}  // namespace
}  // namespace lockstep
