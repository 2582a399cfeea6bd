// Exposed time: a rank that comes early waits, the wait is told under its mesh dim, and hidden communication
// is not.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "core/device/device.h"
#include "core/mesh/exposed.h"
#include "distributed/local/local_world.h"

using namespace lockstep;

namespace {
constexpr auto kLate = std::chrono::milliseconds(60);

void sum(Group& group, Stream& stream) {
  float value = 1, out = 0;
  group.start(AllReduce{&value, &out, 1, DType::f32}, "sum", stream)->wait(stream);
}
}  // namespace

TEST(Exposed, AnEarlyRankWaitsUnderTheNameOfItsDim) {
  distributed::local_mesh(4, Mesh{{2, 2}, {"dp_replicate", "dp_shard"}}, [&](LiveMesh& mesh) {
    ExposedTime exposed;
    LiveMesh told = exposed.measured(mesh, cpu_device());
    ASSERT_EQ(told.group("dp_shard").rank(), mesh.group("dp_shard").rank());
    auto stream = inline_stream();
    const bool late = mesh.coordinate()[1] == 1;
    barrier(*mesh.world);
    exposed.begin();
    if (late) std::this_thread::sleep_for(kLate);
    sum(told.group("dp_shard"), *stream);
    auto seconds = exposed.seconds();
    EXPECT_EQ(seconds.size(), 3u);  // both dims, and the data dims together
    if (!late) { EXPECT_GE(seconds.at("dp_shard"), 0.04); }
    EXPECT_EQ(seconds.at("dp_replicate"), 0);
    EXPECT_EQ(seconds.at(std::string(kDataDims)), 0);
    ASSERT_EQ(exposed.waits().size(), 1u);
    EXPECT_EQ(exposed.waits()[0], (std::pair<std::string, double>{"sum", seconds.at("dp_shard")}));
    sum(*told.data, *stream);
    EXPECT_GT(exposed.seconds().at(std::string(kDataDims)), 0);
    exposed.begin();
    EXPECT_EQ(exposed.seconds().at("dp_shard"), 0);
  });
}

TEST(Exposed, WhatIsCompleteBeforeTheWaitIsHidden) {
  distributed::local_mesh(2, Mesh{{2}, {"dp_replicate"}}, [&](LiveMesh& mesh) {
    ExposedTime exposed;
    LiveMesh told = exposed.measured(mesh, cpu_device());
    EXPECT_EQ(told.data, told.groups[0]);  // one group, one name
    auto stream = inline_stream();
    float value = 1, out = 0;
    barrier(*mesh.world);
    exposed.begin();
    auto begin = std::chrono::steady_clock::now();
    if (mesh.rank == 1) std::this_thread::sleep_for(kLate);
    auto work = told.data->start(AllReduce{&value, &out, 1, DType::f32}, "sum", *stream);
    while (!work->done()) std::this_thread::yield();  // the rank has other work meanwhile
    work->wait(*stream);
    const double all = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    ASSERT_EQ(exposed.seconds().size(), 1u);
    EXPECT_LT(exposed.seconds().at("dp_replicate"), all - 0.03);
  });
}

// Work that is enqueued once and run again is measured at its last run.
TEST(Exposed, MarksOfAQueueAreReadWhenItHasPassedThem) {
  auto queue = queue_stream();
  auto before = queue->mark();
  queue->run([] { std::this_thread::sleep_for(kLate); });
  auto after = queue->mark();
  queue->synchronize();
  EXPECT_GE(after->seconds_after(*before), 0.06);
}

TEST(Exposed, OneRankHasNothingToWaitFor) {
  ExposedTime exposed;
  LiveMesh mesh = solo_mesh(), told = exposed.measured(mesh, cpu_device());
  EXPECT_EQ(told.data, mesh.data);
  EXPECT_TRUE(exposed.seconds().empty());
}
