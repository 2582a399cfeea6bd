// Ranks as threads of one process: log lines and flight records know whose they are.
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <thread>

#include "core/base/log.h"
#include "core/device/stream.h"
#include "distributed/local/local_world.h"
#include "distributed/watch/flight_record.h"
#include "tests/support/scratch_folder.h"

namespace lockstep {

using namespace distributed;

namespace {

TEST(ThreadRanks, LogLinesCarryTheRankOfTheirThread) {
  std::mutex mutex;
  std::vector<std::string> seen;
  logs::set_sink([&](int rank, const std::string& line) {
    std::lock_guard lock(mutex);
    seen.push_back(str(rank, ": ", line));
  });
  with_ranks(3, [](Group& group) {
    logs::set_thread_rank(group.rank());
    logs::info("a line for people");
    logs::warn("careful");
    logs::set_thread_rank(-1);
  });
  logs::warn("of the process");
  logs::set_sink({});
  EXPECT_EQ(seen.back(), "0: of the process");
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(seen, (std::vector<std::string>{"0: a line for people", "0: careful", "0: of the process",
                                            "1: [rank 1] careful", "2: [rank 2] careful"}));
}

TEST(ThreadRanks, CollectivesGoToTheRecorderOfTheirRank) {
  ScratchFolder folder;
  auto path = [&](int rank) { return folder.path(str("progress-", rank)); };
  with_ranks(2, [&](Group& group) {
    set_thread_flight_recorder(std::make_shared<FlightRecorder>(path(group.rank()), group.rank()));
    flight_recorder()->progress(group.rank() + 7, -1);
    barrier(group, "first");
    // Also what a stream runs on a thread of its own.
    auto stream = queue_stream();
    int32_t sum = 1;
    group.start(AllReduce{&sum, &sum, 1, DType::i32}, "second", *stream)->wait(*stream);
    stream->synchronize();
    set_thread_flight_recorder(nullptr);
    barrier(group, "nobody records it");
  });
  for (int rank : {0, 1}) {
    FlightLog log = read_flight_log(path(rank));
    EXPECT_EQ(log.progress.rank, rank);
    EXPECT_EQ(log.progress.step, rank + 7);
    ASSERT_EQ(log.entries.size(), 2u);
    EXPECT_EQ(log.entries[0].label, "first");
    EXPECT_EQ(log.entries[1].label, "second");
    for (const auto& entry : log.entries) {
      EXPECT_EQ(entry.group.rank, rank);
      EXPECT_EQ(entry.state, FlightState::done);
    }
  }
}

}  // namespace
}  // namespace lockstep
