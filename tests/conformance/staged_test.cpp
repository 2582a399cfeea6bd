// Conformance of the group that stages through the host, and of the group of one on a device, over memory
// that the host must not touch.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "core/base/error.h"
#include "distributed/device_group.h"
#include "distributed/local/local_world.h"
#include "distributed/mesh/device_mesh.h"
#include "distributed/staged_group.h"
#include "tests/conformance/far_device.h"
#include "tests/conformance/group_conformance.h"
#include "tests/conformance/over_device.h"

using namespace lockstep;
using namespace lockstep::distributed;
using conformance::FarDevice;

namespace {
std::shared_ptr<Group> borrowed(Group& group) {
  return {&group, [](Group*) {}};
}
}  // namespace

class StagedConformance : public testing::TestWithParam<std::tuple<int, size_t>> {};

TEST_P(StagedConformance, Passes) {
  auto [ranks, index] = GetParam();
  const auto& one = conformance::group_cases()[index];
  with_ranks(ranks,
             [&](Group& host) {
               FarDevice device;
               one.run(*conformance::over_device(device, staged_group(device, borrowed(host))));
             },
             {.deadline_s = 60});
}

INSTANTIATE_TEST_SUITE_P(Staged, StagedConformance,
                         testing::Combine(testing::Values(1, 2, 3, 4),
                                          testing::Range<size_t>(0, conformance::group_cases().size())),
                         [](const auto& info) {
                           return conformance::group_cases()[std::get<1>(info.param)].name + "_on_" +
                                  std::to_string(std::get<0>(info.param));
                         });

TEST(SoloDeviceConformance, Passes) {
  FarDevice device;
  auto group = conformance::over_device(device, solo_device_group(device));
  for (const auto& one : conformance::group_cases())
    if (one.name != "send_recv" && one.name != "tags")
      one.run(*group);  // a group of one has nobody to send to
}

TEST(StagedGroup, KeepsTheOrderOfTheStream) {
  // What was enqueued before the start is seen by the collective, what is enqueued after the wait sees its
  // result, and the host waits for neither.
  with_ranks(3,
             [](Group& host) {
               FarDevice device;
               auto group = staged_group(device, borrowed(host));
               auto stream = device.make_stream();
               Buffer data(8, device.memory());
               int64_t mine = host.rank() + 1, seen = -1;
               stream->run([] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); });
               device.copy(data.data(), &mine, 8, *stream);
               auto work =
                   group->start(AllReduce{data.data(), data.data(), 1, DType::i64}, "staged", *stream);
               work->wait(*stream);
               device.copy(&seen, data.data(), 8, *stream);
               stream->synchronize();
               EXPECT_EQ(seen, 6);
             },
             {.deadline_s = 60});
}

// Who waits for the stream, or as a step does for a point of it, is told.
class LatePeer : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Staged, LatePeer, testing::Values(false, true),
                         [](const auto& info) { return info.param ? "of_an_event" : "of_the_stream"; });

TEST_P(LatePeer, IsAPeerError) {
  try {
    with_ranks(2,
               [](Group& host) {
                 FarDevice device;
                 auto group = staged_group(device, borrowed(host));
                 if (host.rank() == 1) {
                   std::this_thread::sleep_for(std::chrono::milliseconds(1500));
                   return;
                 }
                 Buffer data(8, device.memory());
                 auto stream = device.make_stream();
                 group->start(AllReduce{data.data(), data.data(), 1, DType::i64}, "gradients", *stream)
                     ->wait(*stream);
                 if (GetParam()) wait_on_host(*stream->record(), {});
                 stream->synchronize();
               },
               {.deadline_s = 0.3});
    FAIL() << "no error";
  } catch (const PeerError& error) {
    EXPECT_NE(std::string(error.what()).find("all_reduce \"gradients\""), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("0.3 s"), std::string::npos) << error.what();
  }
}

TEST(DeviceMesh, MakesGroupsForADevice) {
  with_world(4, [](std::shared_ptr<World> world) {
    FarDevice device;
    DeviceMesh mesh(world, Mesh{{2, 2}, {"dp_replicate", "tp"}}, &device);
    const LiveMesh& live = mesh.live();
    ASSERT_TRUE(live.device_data);
    EXPECT_EQ(live.device_data->size(), 2);
    EXPECT_EQ(live.device_data->rank(), live.data->rank());
    EXPECT_NE(live.device_data, live.data);
    EXPECT_EQ(mesh.device_group("dp_replicate"), live.device_data);
    auto tensor = mesh.device_group("tp");
    auto facade = conformance::over_device(device, tensor);
    int64_t value = world->rank();
    all_reduce(*facade, {&value, &value, 1, DType::i64});
    EXPECT_EQ(value, world->rank() / 2 * 4 + 1);
    auto slice = mesh["dp_replicate"];
    EXPECT_EQ(slice.device_data, live.device_data);
    // A dim of one rank needs nobody.
    EXPECT_EQ(live_mesh(world, Mesh{{4, 1}, {"tp", "dp_replicate"}}, device).device_data->size(), 1);
    // Where the host addresses the memory there is nothing to make.
    EXPECT_FALSE(live_mesh(world, Mesh{{4}, {"dp_replicate"}}, cpu_device()).device_data);
    auto host = world->group();
    EXPECT_EQ(device_group(cpu_device(), host), host);
  });
}
