// Which buffers wait in the host's memory, and when they go and come, on arenas that one can follow by hand.
#include <gtest/gtest.h>

#include "compiler/schedule/host_copies.h"

namespace lockstep {

using namespace compiler;

namespace {

constexpr int64_t kKiB = 1024;

// Layers forward and backward: layer l makes a buffer in call l, which call 2 * layers - 1 - l reads.
struct Pyramid {
  std::vector<Lifetime> lives;
  std::vector<Gap> gaps;
  std::vector<double> seconds;
  explicit Pyramid(int layers) : seconds(2 * layers, 1.0) {
    for (int l = 0; l < layers; ++l) {
      const int back = 2 * layers - 1 - l;
      lives.push_back({l, back, kKiB});
      if (l + 1 < back) gaps.push_back({static_cast<size_t>(l), l + 1, back});
    }
  }
  // A copy of a buffer takes `calls` of time.
  ArenaWithin within(int64_t bytes, double calls) const {
    return plan_arena_within(lives, gaps, seconds,
                             {.host = static_cast<double>(kKiB) / calls, .host_latency = 0}, bytes);
  }
};

std::vector<std::vector<int>> calls_of(const std::vector<HostCopy>& copies) {
  std::vector<std::vector<int>> out;
  for (const HostCopy& copy : copies)
    out.push_back({static_cast<int>(copy.life), copy.leaves, copy.gone, copy.comes, copy.back});
  return out;
}

TEST(HostCopies, WhatFitsStays) {
  const Pyramid pyramid(6);
  EXPECT_EQ(pyramid.within(6 * kKiB, 1).arena.bytes, 6 * kKiB);
  EXPECT_TRUE(pyramid.within(6 * kKiB, 1).copies.empty());
  EXPECT_EQ(pyramid.within(100 * kKiB, 1).host.bytes, 0);
}

// The first layers leave, one behind another; they come a quarter of their time early, and nothing stalls.
TEST(HostCopies, TheLongestGapsLeaveFirstAndHide) {
  const ArenaWithin made = Pyramid(6).within(4 * kKiB, 1);
  EXPECT_EQ(made.arena.bytes, 4 * kKiB);
  EXPECT_EQ(calls_of(made.copies), (std::vector<std::vector<int>>{{0, 1, 2, 9, 11}, {1, 2, 3, 8, 10}}));
  EXPECT_EQ(made.stall, 0);
  EXPECT_EQ(made.host.bytes, 2 * kKiB);
}

// A queue of half the speed: the copies end later, and still in time.
TEST(HostCopies, ASlowQueueIsWaitedForWhereItsBytesAreNeeded) {
  const ArenaWithin made = Pyramid(6).within(4 * kKiB, 2);
  EXPECT_LE(made.arena.bytes, 4 * kKiB);
  ASSERT_GE(made.copies.size(), 2u);
  for (const HostCopy& copy : made.copies) {
    EXPECT_LT(copy.leaves, copy.gone);
    EXPECT_LT(copy.gone, copy.comes);
    EXPECT_LT(copy.comes, copy.back);
  }
  const ArenaWithin slow = Pyramid(6).within(4 * kKiB, 6);
  EXPECT_LE(slow.arena.bytes, 4 * kKiB);
  EXPECT_GT(slow.stall, made.stall) << "calls stand still for a queue that is too slow";
}

// Device and host are one memory: copies take the time of calls.
TEST(HostCopies, OfOneMemoryStandStill) {
  const Pyramid pyramid(4);
  const ArenaWithin made =
      plan_arena_within(pyramid.lives, pyramid.gaps, pyramid.seconds,
                        {.memory = 2 * static_cast<double>(kKiB), .launch = 0, .host = 0}, 3 * kKiB);
  EXPECT_EQ(made.arena.bytes, 3 * kKiB);
  EXPECT_EQ(calls_of(made.copies), (std::vector<std::vector<int>>{{0, 1, 1, 7, 7}}));
  EXPECT_EQ(made.stall, 2);
}

// What cannot wait stays, and the arena is as small as copies make it.
TEST(HostCopies, AskForNoMoreThanThereIs) {
  const ArenaWithin least = Pyramid(6).within(1, 0.01);
  EXPECT_EQ(least.arena.bytes, kKiB) << "the buffer that is read or made";
  EXPECT_EQ(Pyramid(6).within(kKiB, 0.01).arena.bytes, kKiB) << "what is named as the least is kept";
  // One long buffer whose copies take longer than its gap.
  const ArenaWithin none = plan_arena_within({{0, 3, kKiB}}, {{0, 1, 3}}, {1, 1, 1, 1},
                                             {.host = kKiB / 10.0, .host_latency = 0}, kKiB / 2);
  EXPECT_TRUE(none.copies.empty());
  EXPECT_EQ(none.arena.bytes, kKiB);
}

// Waiting places are shared by what waits one behind another.
TEST(HostCopies, TakeTurnsOnTheHost) {
  const std::vector<Lifetime> lives{{0, 4, kKiB}, {6, 10, kKiB}, {2, 2, 2 * kKiB}, {8, 8, 2 * kKiB}};
  const ArenaWithin made = plan_arena_within(lives, {{0, 1, 4}, {1, 7, 10}}, std::vector<double>(11, 1.0),
                                             {.host = 1e9, .host_latency = 0}, 2 * kKiB);
  EXPECT_EQ(made.arena.bytes, 2 * kKiB);
  EXPECT_EQ(made.copies.size(), 2u);
  EXPECT_EQ(made.host.bytes, kKiB);
}

}  // namespace
}  // namespace lockstep
