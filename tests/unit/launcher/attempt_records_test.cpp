// Records of an attempt's ranks, written by hand: who was where, who did not come, what differed first; and
// cores that a cgroup lets run.
#include "launcher/cli/look/attempt_records.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include "core/base/error.h"
#include "launcher/cli/doctor/doctor.h"
#include "launcher/cli/watch_commands.h"
#include "tests/support/scratch_folder.h"

namespace lockstep {

using namespace launcher::cli;
using namespace distributed;

namespace {

class Attempt : public ::testing::Test {
 protected:
  void SetUp() override {
    previous_ = std::filesystem::current_path();
    std::filesystem::current_path(scratch_.path(""));
    std::filesystem::create_directories("runs/x/logs/attempt-1");
  }
  void TearDown() override { std::filesystem::current_path(previous_); }

  // A rank's record: sums named by `labels`, of which the last one stays in flight where `waits`.
  void record(int rank, const std::vector<std::string>& labels, bool waits) {
    FlightRecorder recorder(str("runs/x/logs/attempt-1/progress-", rank), rank);
    recorder.progress(7, 0);
    recorder.phase("step");
    const GroupIdentity world = identify_group("world", {0, 1, 2}, rank);
    SiteTrail trail;
    for (size_t i = 0; i < labels.size(); ++i) {
      float value = 0;
      const Collective what = AllReduce{&value, &value, 1, DType::f32};
      const uint64_t seq = recorder.started(world, trail.next(what, labels[i]), what, labels[i]);
      if (!waits || i + 1 < labels.size()) recorder.ended(seq, FlightState::done);
    }
  }
  std::string told() {
    std::ostringstream out;
    EXPECT_EQ(autopsy({"x", 0}, out), 0);
    return out.str();
  }

  ScratchFolder scratch_;
  std::filesystem::path previous_;
};

void expect_has(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "missing: " << part << "\nin:\n" << text;
}

TEST_F(Attempt, WhoDidNotCome) {
  record(0, {"count", "loss", "norm"}, true);
  record(1, {"count", "loss"}, false);
  record(2, {"count", "loss", "norm"}, true);
  const AttemptRecords at = read_attempt("x");
  const auto open = open_meetings(at.logs());
  ASSERT_EQ(open.size(), 1u);
  EXPECT_EQ(open[0].entry.label, "norm");
  EXPECT_EQ(open[0].there, (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(open[0].missing, (std::vector<int64_t>{1}));
  EXPECT_EQ(whereabouts(*at.ranks[0].log), "in all_reduce \"norm\" of world, #2");
  EXPECT_EQ(whereabouts(*at.ranks[1].log), "behind all_reduce \"loss\" of world, #1");
  const std::string words = told();
  expect_has(words,
             "open: all_reduce \"norm\" (f32, 1 elements, sum), #2 of group world: ranks 0, 2 entered it, ");
  expect_has(words, "; rank 1 did not come\n");
  expect_has(words, "first divergence: none in the last 2 collectives of each rank: ");
}

TEST_F(Attempt, WhatDifferedFirst) {
  record(0, {"count", "loss", "norm"}, true);
  record(1, {"count", "lost", "norm"}, true);
  expect_has(
      told(),
      "first divergence: collective 1 of group world differs: rank 0 started all_reduce \"loss\" (f32, 1 "
      "elements, sum), rank 1 started all_reduce \"lost\" ");
}

TEST_F(Attempt, RanksWithoutARecordAreTold) {
  record(0, {"count"}, true);
  scratch_.write("runs/x/logs/attempt-1/rank-2.log", std::string("killed\n"));
  scratch_.write("runs/x/logs/attempt-1/progress-1", std::string("what is no record"));
  const std::string words = told();
  expect_has(words, "3 ranks: no failure is recorded\n");
  expect_has(words, "no record: it did not get as far as its first word\n");
  expect_has(words, "flight record runs/x/logs/attempt-1/progress-1 ");
  expect_has(words, "ranks 1, 2 did not come\n");
}

// A file of a stranger's makes no ranks.
TEST_F(Attempt, NumbersOfRanksThatItDoesNotHaveAreLeftOut) {
  record(0, {"count"}, false);
  record(1, {"count"}, false);
  for (const char* file : {"progress-999999", "rank-4.log", "worker-99999999999999999999.json"})
    scratch_.write(str("runs/x/logs/attempt-1/", file), std::string());
  std::string words = told();
  expect_has(words, "attempt 1 of 1, 5 ranks: ");  // a number below that of the files
  expect_has(words,
             "\nleft out, with numbers of ranks that an attempt of so few files does not have: "
             "progress-999999, worker-99999999999999999999.json\n");
  std::filesystem::remove("runs/x/logs/attempt-1/rank-4.log");
  words = told();
  expect_has(words, "attempt 1 of 1, 2 ranks: ");
  EXPECT_EQ(words.find("no record"), std::string::npos) << words;
}

TEST_F(Attempt, CoresOfACgroup) {
  scratch_.write("v1/proc/self/cgroup", std::string("4:cpu,cpuacct:/job\n3:cpuset:/job\n"));
  scratch_.write("v1/sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", std::string("50000\n"));
  scratch_.write("v1/sys/fs/cgroup/cpu/job/cpu.cfs_period_us", std::string("100000\n"));
  bool warned = false;
  for (const Finding& one : host_findings(scratch_.path("v1")))
    if (one.what == "cores") {
      warned = one.health == Health::warn;
      expect_has(one.mend, "use --nproc 1, or raise the quota");
    }
  EXPECT_TRUE(warned);
}

}  // namespace
}  // namespace lockstep
