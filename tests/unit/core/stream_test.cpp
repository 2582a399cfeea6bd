// Streams and events of the CPU, memory, and the two copies of an array.
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/mesh/array.h"
#include "tests/conformance/far_device.h"
#include "tests/ranks/expect_error.h"

namespace lockstep {
namespace {

TEST(Stream, AnEventTellsWhatFailedBeforeIt) {
  auto stream = queue_stream();
  auto before = stream->record();
  stream->run([] { throw PeerError("rank 3 is gone"); });
  auto after = stream->record(), later = stream->record();
  before->synchronize();
  EXPECT_TRUE(before->done());
  for (auto& event : {after, later})
    for (int time = 0; time < 2; ++time) {
      expect_error<PeerError>([&] { event->synchronize(); }, {"rank 3 is gone"});
      expect_error<PeerError>([&] { event->done(); }, {"rank 3 is gone"});
    }
  // The stream tells it as well, once, and goes on.
  expect_error<PeerError>([&] { stream->synchronize(); }, {"rank 3 is gone"});
  stream->synchronize();
  stream->record()->synchronize();
  expect_error<PeerError>([&] { after->synchronize(); }, {"rank 3 is gone"});
}

TEST(Stream, AnErrorPassesToTheStreamThatWaits) {
  auto first = queue_stream(), second = queue_stream();
  bool ran = false;
  first->run([] { throw PeerError("rank 3 is gone"); });
  second->wait(first->record());
  second->run([&] { ran = true; });
  auto end = second->record();
  expect_error<PeerError>([&] { wait_on_host(*end, {}); }, {"rank 3 is gone"});
  EXPECT_FALSE(ran);
}

TEST(Stream, AnEventOfTheInlineStreamIsDone) {
  auto event = inline_stream()->record();
  EXPECT_TRUE(event->done());
  event->synchronize();
}

TEST(Memory, OfTheCpuIsZeroedAndAligned) {
  for (size_t bytes : {0, 1, 255, 256, 257, 100000}) {
    Buffer buffer(bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 256, 0u) << bytes;
    for (size_t i = 0; i < bytes; ++i) ASSERT_EQ(buffer.data()[i], std::byte{0});
  }
}

// The newest bytes are where they were written last, whichever device did.
TEST(Array, FollowsTheDeviceThatWrote) {
  conformance::FarDevice far;
  Mesh mesh{{1}, {"dp_replicate"}};
  Array array = make_array("w", DType::i32, {1}, Layout{}, mesh, 0);
  auto* host = array.data.as<int32_t>();
  int32_t seven = 7;
  *host = 3;
  array.host_wrote();
  copy_to_device(far, array.on(far), &seven, 4);
  EXPECT_EQ(*host, 3);
  array.device_wrote(far);
  array.fetch();
  EXPECT_EQ(*host, 7);
  // The CPU as the device writes the host's copy: the far one is old then.
  EXPECT_EQ(array.on(cpu_device()), array.data.data());
  *host = 11;
  array.device_wrote(cpu_device());
  array.fetch();
  EXPECT_EQ(*host, 11);
  int32_t back = 0;
  copy_to_host(far, &back, array.on(far), 4);
  EXPECT_EQ(back, 11);
}

// What a device wrote is brought home, and stays there, at one place; a copy that the device asks for follows
// it.
TEST(Array, LivesOnTheHost) {
  conformance::FarDevice far;
  constexpr int64_t kCount = 1 << 19;  // large: pages that a device's copy would give back
  Array array = make_array("m", DType::i32, {kCount}, Layout{}, {{1}, {"dp_replicate"}}, 0);
  EXPECT_FALSE(array.lives_on_host());
  const int32_t seven = 7;
  copy_to_device(far, array.on(far) + 4, &seven, 4);
  array.device_wrote(far);
  auto* host = reinterpret_cast<int32_t*>(array.on_host(far));
  EXPECT_TRUE(array.lives_on_host());
  EXPECT_EQ(array.device(), nullptr) << "the device's copy is given up";
  EXPECT_EQ(host[0], 0);
  EXPECT_EQ(host[1], 7);
  host[0] = 3;
  array.host_wrote();
  EXPECT_EQ(reinterpret_cast<int32_t*>(array.on_host(far)), host);
  EXPECT_EQ(array.newest().device, nullptr);
  int32_t back[2];
  copy_to_host(far, back, array.on(far), sizeof back);
  EXPECT_EQ(back[0], 3);
  EXPECT_EQ(host[0], 3) << "a copy on the device takes nothing from the host";
  host[1] = 11;
  array.host_wrote();
  copy_to_host(far, back, array.on(far), sizeof back);
  EXPECT_EQ(back[1], 11);
}

}  // namespace
}  // namespace lockstep
