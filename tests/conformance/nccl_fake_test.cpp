// The group over NCCL, with a driver and an NCCL that need no GPU (fake/): order, polling, pairs, splits,
// errors and deadlines. What only the real ones can show runs in tests/gpu.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "core/base/error.h"
#include "distributed/local/local_world.h"
#include "distributed/mesh/device_mesh.h"
#include "distributed/nccl/nccl_group.h"
#include "tests/conformance/group_conformance.h"
#include "tests/conformance/over_device.h"

using namespace lockstep;
using namespace lockstep::distributed;

namespace {
const bool kPrepared = [] {
  setenv("LOCKSTEP_CUDA_DRIVER", FAKE_CUDA, 1);
  conformance::leave_out(DType::u16);
  cuda::open_device(0);  // loads the library that is also found as NCCL
  return nccl().version == 22809;
}();

struct Ranks {
  std::shared_ptr<cuda::CudaDevice> device;
  std::shared_ptr<Group> group;
  std::unique_ptr<Stream> stream;
  Ranks(Group& host, const std::string& name = "data") : device(cuda::open_device(host.rank())) {
    group = nccl_group(*device, host, name, true);
    stream = device->make_stream();
  }
  void finish() {
    Group* one = group.get();
    wait_on_host(*stream->record(), std::span(&one, 1));
  }
};

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}
void expect_words(const std::string& text, std::initializer_list<std::string> parts) {
  for (const auto& part : parts)
    EXPECT_NE(text.find(part), std::string::npos) << "no \"" << part << "\" in: " << text;
}
}  // namespace

class NcclConformance : public testing::TestWithParam<std::tuple<int, size_t>> {};

TEST_P(NcclConformance, Passes) {
  auto [ranks, index] = GetParam();
  const auto& one = conformance::group_cases()[index];
  if (one.name == "tags" || one.name == "start_returns_at_once")
    GTEST_SKIP() << "NCCL has neither tags nor messages that overtake";
  if (one.name == "send_recv" && ranks == 1) GTEST_SKIP() << "a group of one has nobody to send to";
  with_ranks(ranks,
             [&](Group& host) {
               Ranks at(host);
               one.run(*conformance::over_device(*at.device, at.group));
               auto half = split_nccl_group(*at.group, host.rank() % 2, -host.rank(), "half");
               EXPECT_EQ(half->size(), (ranks + 1 - host.rank() % 2) / 2);
               EXPECT_EQ(half->rank(), half->size() - 1 - host.rank() / 2);
               if (half->size() > 1) one.run(*conformance::over_device(*at.device, half));
             },
             {.deadline_s = 60});
}

INSTANTIATE_TEST_SUITE_P(Fake, NcclConformance,
                         testing::Combine(testing::Values(1, 2, 3),
                                          testing::Range<size_t>(0, conformance::group_cases().size())),
                         [](const auto& info) {
                           return conformance::group_cases()[std::get<1>(info.param)].name + "_on_" +
                                  std::to_string(std::get<0>(info.param));
                         });

int launches() {
  static void* fake = dlopen(FAKE_CUDA, RTLD_NOW);
  return reinterpret_cast<int (*)()>(dlsym(fake, "fake_nccl_launches"))();
}

TEST(NcclGroup, GathersThatFollowOneAnotherAreOneLaunch) {
  ASSERT_TRUE(kPrepared);
  with_ranks(2,
             [](Group& host) {
               Ranks at(host);
               Buffer in(64, at.device->memory()), out(128, at.device->memory());
               auto gather = [&](int k, bool more) {
                 return at.group->start(
                     AllGather{in.data() + 16 * k, out.data() + 32 * k, {4, 4}, DType::f32, more},
                     str("weights ", k), *at.stream);
               };
               barrier(host);
               const int before = launches();
               barrier(host);
               std::vector<std::shared_ptr<Work>> works;
               for (int k = 0; k < 3; ++k) works.push_back(gather(k, k < 2));
               works.push_back(gather(3, false));
               for (auto& work : works) work->wait(*at.stream);
               at.finish();
               barrier(host);
               EXPECT_EQ(launches() - before, 2 * 2) << "of each rank the first three, and the fourth";
               barrier(host);
             },
             {.deadline_s = 60});
}

TEST(NcclGroup, ALatePeerIsAnErrorWithinTheDeadline) {
  ASSERT_TRUE(kPrepared);
  for (bool launch : {false, true})
    with_ranks(2,
               [&](Group& host) {
                 Ranks at(host);
                 at.group->set_deadline(0.5);
                 Buffer data(400, at.device->memory());
                 barrier(host);
                 if (host.rank() == 1) return std::this_thread::sleep_for(std::chrono::milliseconds(2000));
                 auto begin = std::chrono::steady_clock::now();
                 at.group->start(AllReduce{data.data(), data.data(), 100, DType::f32}, "loss", *at.stream)
                     ->wait(*at.stream);
                 if (launch) at.group->note_launch("step 17", *at.stream);
                 EXPECT_LT(seconds_since(begin), 0.4) << "start and wait do not wait for peers";
                 std::string said;
                 try {
                   at.finish();
                 } catch (const PeerError& error) { said = error.what(); }
                 EXPECT_GE(seconds_since(begin), 0.5);
                 EXPECT_LT(seconds_since(begin), 1.9);
                 expect_words(said,
                              {"group \"data\"", "all_reduce \"loss\" (f32, 100 elements, sum)",
                               "did not complete within 0.5 s on rank 0 of 2", "raise LOCKSTEP_DEADLINE"});
                 try {
                   at.group->start(Barrier{}, "next", *at.stream);
                   ADD_FAILURE() << "a collective starts after the error";
                 } catch (const PeerError& error) { EXPECT_EQ(error.what(), said); }
                 EXPECT_THROW(at.group->check(), PeerError);
                 EXPECT_THROW(at.group->note_launch("step 18", *at.stream), PeerError);
                 EXPECT_NO_THROW(at.stream->synchronize()) << "the stream ends after the abort";
               },
               {.deadline_s = 60});
}

TEST(NcclGroup, ALaunchHasItsOwnLine) {
  with_ranks(2,
             [&](Group& host) {
               Ranks at(host);
               at.group->set_deadline(0.3);
               barrier(host);
               if (host.rank() == 1) return std::this_thread::sleep_for(std::chrono::milliseconds(1500));
               // As when a graph hangs: the stream does not come to its end.
               std::atomic<bool> go{false};
               at.stream->run([&] {
                 while (!go) std::this_thread::sleep_for(std::chrono::milliseconds(1));
               });
               at.group->note_launch("step 17", *at.stream);
               std::string said;
               try {
                 at.finish();
               } catch (const PeerError& error) { said = error.what(); }
               go = true;
               expect_words(said, {"group \"data\": graph \"step 17\" did not complete within 0.3 s on rank "
                                   "0 of 2; a peer is late"});
             },
             {.deadline_s = 60});
}

TEST(NcclGroup, ASplitWithoutAPeerIsAnErrorWithinTheDeadline) {
  with_ranks(2,
             [&](Group& host) {
               Ranks at(host);
               at.group->set_deadline(0.3);
               barrier(host);
               if (host.rank() == 1) return std::this_thread::sleep_for(std::chrono::milliseconds(1000));
               auto begin = std::chrono::steady_clock::now();
               std::string said;
               try {
                 split_nccl_group(*at.group, 0, 0, "half");
               } catch (const PeerError& error) { said = error.what(); }
               EXPECT_GE(seconds_since(begin), 0.3);
               EXPECT_LT(seconds_since(begin), 0.9);
               expect_words(said, {"group \"half\": no communicator for color 0 on rank 0 of 2",
                                   "still at work after 0.3 s", "a peer is late"});
             },
             {.deadline_s = 60});
}

TEST(NcclGroup, SplitsOfSplits) {
  with_ranks(4, [&](Group& host) {
    Ranks at(host);
    for (int round = 0; round < 3; ++round) {
      auto half = split_nccl_group(*at.group, host.rank() / 2, host.rank(), "half");
      auto one = split_nccl_group(*half, host.rank() % 2, 0, "one");
      ASSERT_EQ(half->size(), 2);
      ASSERT_EQ(half->rank(), host.rank() % 2);
      ASSERT_EQ(one->size(), 1);
      int64_t got = host.rank();
      all_reduce(*conformance::over_device(*at.device, half), {&got, &got, 1, DType::i64});
      EXPECT_EQ(got, host.rank() / 2 == 0 ? 1 : 5);
    }
  });
}

TEST(NcclGroup, AnAsynchronousErrorOfAPeerIsSeen) {
  with_ranks(
      2,
      [&](Group& host) {
        Ranks at(host);
        Buffer data(400, at.device->memory());
        barrier(host);
        at.group->set_deadline(host.rank() == 0 ? 0.3 : 60);  // rank 0 gives up first, and rank 1 hears of it
        if (host.rank() == 0) {
          at.group->start(AllReduce{data.data(), data.data(), 100, DType::f32}, "loss", *at.stream)
              ->wait(*at.stream);
          EXPECT_THROW(at.finish(), PeerError);
          return;
        }
        auto stop = std::chrono::steady_clock::now() + std::chrono::seconds(10);
        std::string said;
        while (said.empty() && std::chrono::steady_clock::now() < stop) try {
            at.group->check();
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
          } catch (const PeerError& error) { said = error.what(); }
        expect_words(
            said, {"group \"data\" failed on rank 1 of 2", "remote process exited", "the fake's last words"});
        try {
          split_nccl_group(*at.group, 0, 0, "next");
          ADD_FAILURE() << "a split after the error";
        } catch (const PeerError& error) { EXPECT_EQ(error.what(), said); }
        EXPECT_THROW(at.group->check(), PeerError);
      },
      {.deadline_s = 60});
}

TEST(NcclGroup, AfterAnErrorInAPartTheWholeIsOfNoUse) {
  with_ranks(2,
             [&](Group& host) {
               Ranks at(host);
               auto part = split_nccl_group(*at.group, 0, host.rank(), "part");
               part->set_deadline(0.3);
               Buffer data(400, at.device->memory());
               EXPECT_NO_THROW(at.group->check());
               barrier(host);
               if (host.rank() == 1) return std::this_thread::sleep_for(std::chrono::milliseconds(1000));
               part->start(AllReduce{data.data(), data.data(), 100, DType::f32}, "loss", *at.stream)
                   ->wait(*at.stream);
               Group* one = part.get();
               EXPECT_THROW(wait_on_host(*at.stream->record(), std::span(&one, 1)), PeerError);
               try {
                 at.group->check();
                 ADD_FAILURE() << "the whole is said to be well";
               } catch (const PeerError& error) {
                 expect_words(error.what(), {"group \"data\" failed on rank 0 of 2",
                                             "one that shares its resources, was aborted"});
               }
             },
             {.deadline_s = 60});
}

TEST(NcclGroup, GroupsOfAMesh) {
  with_world(4, [](std::shared_ptr<World> world) {
    auto device = cuda::open_device(world->rank());
    DeviceMesh mesh(world, Mesh{{2, 2}, {"dp_replicate", "tp"}}, device.get());
    ASSERT_TRUE(mesh.live().device_data && mesh.live().device_data->capturable());
    EXPECT_EQ(mesh.live().device_data->size(), 2);
    for (const char* dim : {"dp_replicate", "tp"}) {
      int64_t got = world->rank(), wanted = got;
      auto facade = conformance::over_device(*device, mesh.device_group(dim));
      all_reduce(*facade, {&got, &got, 1, DType::i64});
      all_reduce(*mesh.group(dim), {&wanted, &wanted, 1, DType::i64});
      EXPECT_EQ(got, wanted) << dim;
    }
  });
}

TEST(NcclGroup, OneRankHasNoCommunicator) {
  auto device = cuda::open_device(0);
  auto host = solo_group();
  auto group = nccl_group(*device, *host, "alone");
  EXPECT_EQ(group->size(), 1);
  EXPECT_TRUE(group->capturable());
  EXPECT_EQ(communicator_bytes(*group), 0);
  try {
    split_nccl_group(*group, 0, 0, "part");
    FAIL() << "split";
  } catch (const InternalError& error) {
    expect_words(error.what(), {"group \"alone\" is not NCCL's and cannot be split as one"});
  }
}
