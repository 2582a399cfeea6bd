// What the supervisor says of late ranks, from records that are written by hand: which, where, once, and that they have come.
#include <gtest/gtest.h>

#include <memory>

#include "launcher/supervise/contract.h"
#include "launcher/supervise/late_watch.h"
#include "tests/support/scratch_folder.h"

using namespace lockstep;

namespace {
using Texts = std::vector<std::string>;

constexpr int64_t kSecond = 1'000'000'000;

// Three ranks, a world and a group tp of ranks 1 and 2.
class Records {
 public:
  explicit Records(int ranks = 3) {
    for (int r = 0; r < ranks; ++r) of.push_back(std::make_unique<FlightRecorder>(progress_file(folder.path(""), r), r));
  }
  static GroupIdentity world(int rank) { return identify_group("world", {0, 1, 2}, rank); }
  static GroupIdentity tp(int rank) { return identify_group("tp", {1, 2}, rank - 1); }
  ScratchFolder folder;
  std::vector<std::unique_ptr<FlightRecorder>> of;
};
}  // namespace

TEST(LateWatch, NamesTheRankAndWhereItIs) {
  Records records;
  for (int r = 0; r < 3; ++r) {
    records.of[r]->progress(60, -1);
    records.of[r]->ended(records.of[r]->started(Records::world(r), 0, "barrier", "begin", 0), FlightState::done);
  }
  std::vector<uint64_t> waiting;
  for (int r = 0; r < 2; ++r) waiting.push_back(records.of[r]->started(Records::world(r), 1, "all_reduce", "count", 16));
  const int64_t begin = flight_clock_ns();
  LateWatch watch(records.folder.path(""), 3, 30);
  EXPECT_EQ(watch.look(begin + 9 * kSecond), Texts{});  // a third of the deadline is not over
  const Texts said = watch.look(begin + 12 * kSecond);
  ASSERT_EQ(said.size(), 1u);
  const std::string head = "rank 2 is late: ranks 0, 1 have waited 12",
                    tail = " s in all_reduce \"count\" of group world; rank 2 is at step 60; they give up after 30 s (LOCKSTEP_DEADLINE)";
  EXPECT_EQ(said[0].substr(0, head.size()), head);
  ASSERT_GE(said[0].size(), tail.size()) << said[0];
  EXPECT_EQ(said[0].substr(said[0].size() - tail.size()), tail);
  EXPECT_EQ(watch.look(begin + 14 * kSecond), Texts{});  // once
  waiting.push_back(records.of[2]->started(Records::world(2), 1, "all_reduce", "count", 16));
  for (int r = 0; r < 3; ++r) records.of[r]->ended(waiting[r], FlightState::done);
  EXPECT_EQ(watch.look(begin + 16 * kSecond), Texts{"all_reduce \"count\" of group world goes on: it is not waited for any more"});
  EXPECT_EQ(watch.look(begin + 18 * kSecond), Texts{});
}

TEST(LateWatch, RanksOfAGroupAreThoseOfTheRun) {
  Records records;
  for (int r = 1; r < 3; ++r) records.of[r]->ended(records.of[r]->started(Records::tp(r), 0, "all_gather", "x", 8), FlightState::done);
  records.of[2]->started(Records::tp(2), 1, "all_gather", "y", 8);
  records.of[2]->started(Records::tp(2), 2, "all_gather", "z", 8);  // waits behind it
  records.of[1]->started(Records::world(1), 0, "all_reduce", "elsewhere", 8);
  LateWatch watch(records.folder.path(""), 3, 30);
  const Texts said = watch.look(flight_clock_ns() + 20 * kSecond);
  ASSERT_EQ(said.size(), 2u);
  std::string both = said[0] + "\n" + said[1];
  for (const char* words :
       {"rank 1 is late: rank 2 has waited 20",
        "in all_gather \"y\" of group tp; rank 1 is at before the first step, in all_reduce \"elsewhere\" of group world",
        "ranks 0, 2 are late: rank 1 has waited 20"})
    EXPECT_NE(both.find(words), std::string::npos) << words << "\nin:\n" << both;
}

TEST(LateWatch, AFailureIsNotACatchUp) {
  Records records;
  uint64_t waiting = records.of[0]->started(Records::world(0), 0, "barrier", "end", 0);
  const int64_t begin = flight_clock_ns();
  LateWatch watch(records.folder.path(""), 3, 3);
  EXPECT_EQ(watch.look(begin + 2 * kSecond).size(), 1u);
  records.of[0]->ended(waiting, FlightState::failed);
  EXPECT_EQ(watch.look(begin + 3 * kSecond), Texts{});
}

TEST(LateWatch, SaysNothingWithoutRecordsOrADeadline) {
  Records two(2);
  two.of[0]->started(Records::world(0), 0, "barrier", "end", 0);
  const int64_t later = flight_clock_ns() + 1000 * kSecond;
  EXPECT_EQ(LateWatch(two.folder.path(""), 3, 30).look(later), Texts{});
  EXPECT_EQ(LateWatch(two.folder.path(""), 2, 0).look(later), Texts{});
  EXPECT_EQ(LateWatch(two.folder.path(""), 1, 30).look(later), Texts{});
}

// A rank whose line has left the record because it went on far is not late.
TEST(LateWatch, WhoIsFurtherIsNotLate) {
  Records records;
  records.of[0]->started(Records::world(0), 0, "all_reduce", "old", 8);
  for (int r = 1; r < 3; ++r)
    for (int i = 0; i <= kFlightSlots; ++i)
      records.of[r]->ended(records.of[r]->started(Records::world(r), i, "all_reduce", "old", 8), FlightState::done);
  const Texts said = LateWatch(records.folder.path(""), 3, 3).look(flight_clock_ns() + 2 * kSecond);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_NE(said[0].find("no rank is late, but all_reduce \"old\" of group world has not completed for 2"), std::string::npos) << said[0];
}
