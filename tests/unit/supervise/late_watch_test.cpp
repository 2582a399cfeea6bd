// What the supervisor says of late, stopped and mistaken ranks, from records that are written by hand: which,
// where, once; that they have come; and when the run must end.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <memory>

#include "distributed/watch/flight_file.h"
#include "launcher/supervise/watch/late.h"
#include "launcher/supervise/worker/contract.h"
#include "tests/support/scratch_folder.h"

using namespace lockstep;
using namespace lockstep::distributed;

namespace {
using Texts = std::vector<std::string>;

constexpr int64_t kSecond = 1'000'000'000;
constexpr Deadlines kThirty{30, 300};

// Three ranks, a world and a group tp of ranks 1 and 2, and a watch whose time is the test's.
class Watched {
 public:
  explicit Watched(const Deadlines& deadlines = kThirty, int ranks = 3) {
    for (int r = 0; r < ranks; ++r)
      of.push_back(std::make_unique<FlightRecorder>(launcher::progress_file(folder.path(""), r), r));
    for (auto& recorder : of) recorder->pace(Pace::steps);
    watch = std::make_unique<launcher::LateWatch>(folder.path(""), ranks, deadlines,
                                                  [this](int64_t) { return state; });
  }
  static GroupIdentity world(int rank) { return identify_group("world", {0, 1, 2}, rank); }
  static GroupIdentity tp(int rank) { return identify_group("tp", {1, 2}, rank - 1); }
  uint64_t waits(int rank, int64_t number, const char* label) {
    return of[rank]->started(world(rank), number, "all_reduce", label, 16);
  }
  // Looks every 50 ms until `seconds` after the beginning; what was said.
  Texts until(double seconds) {
    Texts out;
    for (; at < begin + static_cast<int64_t>(seconds * kSecond); at += kSecond / 20)
      for (auto& line : watch->look(at)) out.push_back(line);
    return out;
  }
  ScratchFolder folder;
  std::vector<std::unique_ptr<FlightRecorder>> of;
  char state = 'S';
  std::unique_ptr<launcher::LateWatch> watch;
  int64_t begin = flight_clock_ns(), at = begin;
};

void expect_parts(const std::string& text, const Texts& parts) {
  for (const auto& part : parts)
    EXPECT_NE(text.find(part), std::string::npos) << "missing: " << part << "\nin: " << text;
}
}  // namespace

// A record goes with its rank: it is opened at the next look, however soon that is.
TEST(LateWatch, KnowsTheStepOfARankThatDiesSoonAfterItsStart) {
  Watched run(kThirty, 0);
  launcher::LateWatch watch(run.folder.path(""), 1, kThirty, [](int64_t) { return 'S'; });
  watch.look(run.begin);
  const std::string path = launcher::progress_file(run.folder.path(""), 0);
  {
    FlightRecorder recorder(path, 0);
    recorder.progress(3, -1);
    watch.look(run.begin + kSecond / 50);
  }
  std::filesystem::remove(path);
  EXPECT_EQ(watch.place(0), "step 3");
}

TEST(LateWatch, NamesTheRankWithinTwoSecondsAndWhereItIs) {
  Watched run;
  for (int r = 0; r < 3; ++r) {
    run.of[r]->progress(60, -1);
    run.of[r]->ended(run.of[r]->started(Watched::world(r), 0, "barrier", "begin", 0), FlightState::done);
  }
  std::vector<uint64_t> waiting;
  for (int r = 0; r < 2; ++r) waiting.push_back(run.waits(r, 1, "count"));
  EXPECT_EQ(run.until(1.4), Texts{});
  const Texts said = run.until(2.1);
  ASSERT_EQ(said.size(), 1u);
  expect_parts(said[0], {"rank 2 is late: ranks 0, 1 have waited 1.",
                         " s in all_reduce \"count\" of group world; rank 2 is at step 60",
                         "; the run ends after 30 s (watch.deadline)"});
  EXPECT_EQ(run.until(8), Texts{});  // once
  EXPECT_EQ(run.watch->verdict(), "");
  waiting.push_back(run.waits(2, 1, "count"));
  for (int r = 0; r < 3; ++r) run.of[r]->ended(waiting[r], FlightState::done);
  EXPECT_EQ(run.until(10),
            Texts{"all_reduce \"count\" of group world goes on: it is not waited for any more"});
  EXPECT_EQ(run.until(40), Texts{});
  EXPECT_EQ(run.watch->verdict(), "");
}

TEST(LateWatch, AtTheDeadlineTheRunEndsForTheLateRank) {
  Watched run;
  run.of[2]->progress(7, -1);
  for (int r = 0; r < 2; ++r) run.waits(r, 0, "count");
  run.until(29);
  EXPECT_EQ(run.watch->verdict(), "");
  run.until(32);
  expect_parts(run.watch->verdict(),
               {"rank 2 did not come to all_reduce \"count\" of group world for 30",
                ", where ranks 0, 1 wait", "rank 2 is at step 7", "the deadline is 30 s (watch.deadline)"});
}

// Copies of other hosts' records, whose clocks began at another time: what moves in them counts.
TEST(LateWatch, OfSeveralHostsTheSilentOneIsNamed) {
  Watched run(kThirty, 0);
  for (int r = 0; r < 2; ++r) {
    run.of.push_back(
        std::make_unique<FlightRecorder>(launcher::progress_file(run.folder.path(""), r), r, true));
    run.of[r]->pace(Pace::steps);
    run.of[r]->progress(7, -1);
    run.of[r]->start_heart();
  }
  launcher::LateWatch watch(run.folder.path(""), 2, kThirty, launcher::process_state, {"h0", "h1"});
  const int64_t later = run.begin + 1'000'000 * kSecond;
  Texts said;
  auto look = [&](double seconds) {
    for (auto& line : watch.look(later + static_cast<int64_t>(seconds * kSecond))) said.push_back(line);
  };
  for (double s = 0; s < 4; s += 0.5) look(s);
  EXPECT_EQ(said, Texts{});
  for (double s = 4; s < 7; s += 0.5) look(s);
  ASSERT_EQ(said.size(), 2u);
  expect_parts(said[1], {"rank 1 (process ",
                         " on h1) gives no sign of life (it is frozen, or its host is cut off), "
                         "at step 7; the run ends if it does not go on within 30 s (watch.deadline)"});
  EXPECT_EQ(watch.silent_hosts(), (std::vector<std::string>{"h0", "h1"}));
  for (double s = 7; s < 36; s += 0.5) look(s);
  expect_parts(watch.verdict(),
               {"rank 0 (process ", " on h0) gives no sign of life", "the deadline is 30 s"});
}

// A start, and the time around a checkpoint, has its own deadline, and a compiler's patience.
TEST(LateWatch, BeforeTheFirstStepItWaitsLonger) {
  Watched run;
  run.of[1]->pace(Pace::start);
  for (int r = 0; r < 2; ++r) run.waits(r, 0, "artifact");
  EXPECT_EQ(run.until(60), Texts{});
  EXPECT_EQ(run.watch->verdict(), "");
  const Texts said = run.until(102);
  ASSERT_EQ(said.size(), 1u);
  expect_parts(said[0], {"rank 2 is late", "the run ends after 300 s (watch.start_deadline)"});
}

TEST(LateWatch, RanksOfAGroupAreThoseOfTheRun) {
  Watched run;
  for (int r = 1; r < 3; ++r)
    run.of[r]->ended(run.of[r]->started(Watched::tp(r), 0, "all_gather", "x", 8), FlightState::done);
  run.of[2]->started(Watched::tp(2), 1, "all_gather", "y", 8);
  run.of[2]->started(Watched::tp(2), 2, "all_gather", "z", 8);  // waits behind it
  run.waits(1, 0, "elsewhere");
  const Texts said = run.until(3);
  ASSERT_EQ(said.size(), 2u);
  expect_parts(said[0] + "\n" + said[1], {"rank 1 is late: rank 2 has waited 1.",
                                          "in all_gather \"y\" of group tp; rank 1 is at before the first "
                                          "step, in all_reduce \"elsewhere\" of group world",
                                          "ranks 0, 2 are late: rank 1 has waited 1."});
  // Rank 1 waits itself, for rank 0: at the deadline it is not the one to blame.
  run.until(33);
  expect_parts(run.watch->verdict(), {"rank 0 did not come to all_reduce \"elsewhere\""});
}

TEST(LateWatch, AFailureIsNotACatchUp) {
  Watched run({3, 3});
  uint64_t waiting = run.waits(0, 0, "end");
  EXPECT_EQ(run.until(2).size(), 1u);
  run.of[0]->ended(waiting, FlightState::failed);
  EXPECT_EQ(run.until(3), Texts{});
}

TEST(LateWatch, SaysNothingWithoutRecords) {
  Watched two(kThirty, 2);
  two.waits(0, 0, "end");
  two.watch =
      std::make_unique<launcher::LateWatch>(two.folder.path(""), 3, kThirty, [](int64_t) { return 'S'; });
  EXPECT_EQ(two.until(40), Texts{});
  EXPECT_EQ(two.watch->verdict(), "");
}

// A rank whose line has left the record because it went on far is not late; where all are at it, the transfer
// is.
TEST(LateWatch, WhereAllAreAtItTheTransferStands) {
  Watched run({6, 6});
  run.waits(0, 0, "old");
  for (int r = 1; r < 3; ++r)
    for (int i = 0; i <= kFlightSlots; ++i) run.of[r]->ended(run.waits(r, i, "old"), FlightState::done);
  const Texts said = run.until(3);
  ASSERT_EQ(said.size(), 1u);
  expect_parts(
      said[0],
      {"all ranks are at all_reduce \"old\" of group world and run, but it has not completed for 1."});
  run.until(8);
  expect_parts(run.watch->verdict(), {"all_reduce \"old\" of group world did not complete within 6 s "
                                      "(watch.deadline), though all ranks are at it"});
}

// All have arrived, as the records say, and one is stopped: it is the one, and no other sentence is said.
TEST(LateWatch, AStoppedRankIsNamedAlsoWhereItHasArrived) {
  Watched run({6, 6});
  for (int r = 0; r < 3; ++r) run.waits(r, 4, "norm");
  run.of[1]->progress(41, -1);
  run.of[1]->start_heart();
  run.state = 'T';
  const Texts said = run.until(2);
  ASSERT_EQ(said.size(), 1u) << testing::PrintToString(said);
  expect_parts(
      said[0],
      {"rank 1 (process ",
       ") is stopped (SIGSTOP, Ctrl-Z or a debugger), at step 41, in all_reduce \"norm\" of group world",
       "it does not go on in all_reduce \"norm\" of group world, where ranks 0, 2 wait",
       "the run ends if it does not go on within 6 s (watch.deadline)"});
  EXPECT_EQ(run.until(5), Texts{});
  EXPECT_EQ(run.watch->verdict(), "");
  run.until(8);
  expect_parts(run.watch->verdict(),
               {"rank 1 (process ", ") is stopped (SIGSTOP, Ctrl-Z or a debugger) for 6"});
}

// No one of several is the cause.
TEST(LateWatch, RanksThatAreAllStoppedAreNamedTogether) {
  for (const int stopped : {2, 3}) {
    Watched run({6, 6});
    for (int r = 0; r < stopped; ++r) run.of[r]->start_heart();
    run.state = 'T';
    EXPECT_EQ(run.until(2).size(), static_cast<size_t>(stopped)) << "each is told";
    run.until(8);
    expect_parts(run.watch->verdict(), {stopped == 3 ? "all 3 ranks are stopped" : "ranks 0, 1 are stopped",
                                        " (SIGSTOP, Ctrl-Z or a debugger; processes ", ", ",
                                        "); the deadline is 6 s (watch.deadline)"});
  }
}

TEST(LateWatch, ALoneRankThatIsStoppedIsSeen) {
  Watched run({6, 6}, 1);
  run.of[0]->start_heart();
  run.state = 'T';
  const Texts said = run.until(3);
  ASSERT_EQ(said.size(), 1u);
  expect_parts(said[0], {"rank 0 (process ", "is stopped", "before the first step"});
  EXPECT_EQ(run.watch->verdict(), "");
}

// Before it has a record, as while its libraries are loaded.
TEST(LateWatch, ARankThatIsStoppedBeforeItHasARecordIsNamed) {
  Watched run({6, 9}, 0);
  char state = 'T';
  run.watch = std::make_unique<launcher::LateWatch>(run.folder.path(""), 2, Deadlines{6, 9},
                                                    [&](int64_t pid) { return pid == 777 ? state : 'S'; });
  run.watch->started(0, 776), run.watch->started(1, 777);
  EXPECT_EQ(run.until(2),
            (Texts{"rank 1 (process 777) is stopped (SIGSTOP, Ctrl-Z or a debugger), before it has "
                   "begun; the run ends if it does not go on within 9 s (watch.start_deadline)"}));
  state = 'S';
  const Texts on = run.until(4);
  ASSERT_EQ(on.size(), 1u);
  expect_parts(on[0], {"rank 1 runs again after 2"});
  state = 'T';
  EXPECT_EQ(run.until(12).size(), 1u);
  EXPECT_EQ(run.watch->verdict(), "");
  run.until(14);
  expect_parts(run.watch->verdict(),
               {"rank 1 (process 777) is stopped (SIGSTOP, Ctrl-Z or a debugger), before it "
                "has begun, for 9",
                "; the deadline is 9 s (watch.start_deadline)"});
}

// Time in which nobody looked did not pass: trainrun was stopped with its ranks, and all go on.
TEST(LateWatch, IsFairWhenItDidNotRunItself) {
  Watched run({6, 6});
  for (int r = 0; r < 2; ++r) run.waits(r, 0, "count");
  run.of[2]->start_heart();
  run.state = 'T';
  run.until(0.3);
  run.at += 100 * kSecond;
  run.begin += 100 * kSecond;
  EXPECT_EQ(run.until(0.5), Texts{});
  EXPECT_EQ(run.watch->verdict(), "");
}

TEST(LateWatch, AnotherCollectiveIsFoundAndBothSitesAreNamed) {
  Watched run;
  SiteTrail trails[3];
  float x = 0;
  auto start = [&](int rank, const Collective& what, const char* label) {
    return run.of[rank]->started(Watched::world(rank), trails[rank].next(what, label), what, label);
  };
  for (int r = 0; r < 3; ++r)
    run.of[r]->ended(start(r, AllReduce{&x, &x, 2, DType::i64}, "count"), FlightState::done);
  for (int r = 0; r < 2; ++r) start(r, AllReduce{&x, &x, 4, DType::f32}, "loss");
  run.until(1.5);
  EXPECT_EQ(run.watch->verdict(), "");
  start(2, Barrier{}, "mine");
  run.until(3);
  EXPECT_EQ(run.watch->verdict(),
            "collective 1 of group world differs: rank 0 started all_reduce \"loss\" (f32, 4 elements, sum), "
            "rank 2 started barrier \"mine\"; "
            "all ranks must start the same collectives in the same order");
}

// One that completed: other labels of equal sizes, long ago.
TEST(LateWatch, AnotherLabelIsFoundWhereNothingWaits) {
  Watched run;
  SiteTrail trails[3];
  float x = 0;
  auto all = [&](const char* label, const char* other) {
    for (int r = 0; r < 3; ++r) {
      const AllReduce what{&x, &x, 4, DType::f32};
      const char* mine = r == 1 ? other : label;
      run.of[r]->ended(run.of[r]->started(Watched::world(r), trails[r].next(what, mine), what, mine),
                       FlightState::done);
    }
  };
  all("a", "a");
  run.until(1.5);
  EXPECT_EQ(run.watch->verdict(), "");
  all("a", "b");
  for (int i = 0; i < 300; ++i) all("later", "later");
  run.until(3);
  expect_parts(
      run.watch->verdict(),
      {"ranks 0 and 1 started different collectives of group world before number ", "LOCKSTEP_VERIFY=1"});
}

namespace {
class Windows {
 public:
  explicit Windows(int ranks) : words(ranks), watch(ranks) {}
  // `steps` steps of `seconds` in all, of which each rank works so many milliseconds.
  Texts steps(int n, double seconds, const std::vector<double>& busy_ms) {
    for (size_t r = 0; r < words.size(); ++r) {
      words[r].busy_steps += n;
      words[r].busy_ns += static_cast<int64_t>(busy_ms[r] * 1e6 * n);
    }
    now += static_cast<int64_t>(seconds * kSecond);
    return watch.look(words, now);
  }
  std::vector<WorkerProgress> words;
  launcher::SlowWatch watch;
  int64_t now = kSecond;
};
}  // namespace

TEST(SlowWatch, NamesRankAndFactorAfterThreeWindows) {
  Windows work(4);
  work.steps(0, 0.1, {0, 0, 0, 0});
  for (int i = 0; i < 2; ++i) EXPECT_EQ(work.steps(40, 1.1, {10, 11, 10, 19}), Texts{});
  EXPECT_EQ(work.steps(40, 1.1, {10, 11, 10, 19}),
            Texts{"rank 3 is slow: 1.9 times the median of the other ranks over the last 120 steps "
                  "(19.0 ms of its own work a step, the others 10.0)"});
  EXPECT_EQ(work.watch.slow(), (launcher::SlowRanks{{3, 1.9}}));
  EXPECT_EQ(work.steps(40, 1.1, {10, 11, 10, 19}), Texts{});  // once a minute
  EXPECT_EQ(work.steps(40, 1.1, {10, 11, 10, 12}), Texts{"rank 3 keeps up with the others again"});
  EXPECT_TRUE(work.watch.slow().empty());
}

TEST(SlowWatch, ABurstOrASmallDifferenceIsNotTold) {
  Windows work(4);
  work.steps(0, 0.1, {0, 0, 0, 0});
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(work.steps(40, 1.1, {10, 10, 10, i % 3 ? 30.0 : 10}), Texts{});
    EXPECT_EQ(work.steps(40, 1.1, {10, 14, 13, 10}), Texts{});
    EXPECT_EQ(work.steps(40, 1.1, {0.1, 0.1, 0.4, 0.1}), Texts{});  // three times, of next to nothing
  }
}

// Three micro-batches to two of the others: 1.5 times the work is its share.
TEST(SlowWatch, AShareOfTheWorkIsNotSlow) {
  Windows work(3);
  for (size_t r = 0; r < 3; ++r) work.words[r].share = r == 0 ? 4 : 2;
  work.steps(0, 0.1, {0, 0, 0});
  for (int i = 0; i < 10; ++i) EXPECT_EQ(work.steps(40, 1.1, {40, 20, 20}), Texts{});
}
