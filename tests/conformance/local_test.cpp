// Conformance of ranks as threads, with and without injected latency.
#include <gtest/gtest.h>

#include "distributed/checksummed_group.h"
#include "distributed/local/local_world.h"
#include "tests/conformance/group_conformance.h"

using namespace lockstep;
using namespace lockstep::distributed;

class LocalConformance : public testing::TestWithParam<std::tuple<int, size_t>> {};

TEST_P(LocalConformance, Passes) {
  auto [ranks, index] = GetParam();
  with_ranks(ranks, [index = index](Group& group) { conformance::group_cases()[index].run(group); },
             {.deadline_s = 60});
}

INSTANTIATE_TEST_SUITE_P(Local, LocalConformance,
                         testing::Combine(testing::Values(1, 2, 3, 4, 7),
                                          testing::Range<size_t>(0, conformance::group_cases().size())),
                         [](const auto& info) {
                           return conformance::group_cases()[std::get<1>(info.param)].name + "_on_" +
                                  std::to_string(std::get<0>(info.param));
                         });

// Each message followed by its checksum: the same values.
TEST(LocalConformanceWithChecksums, Passes) {
  for (const auto& one : conformance::group_cases())
    for (int ranks : {2, 3, 4})
      with_world(ranks, [&](std::shared_ptr<World> world) { one.run(*checksummed(world->group())); },
                 {.deadline_s = 60});
}

// Data that arrives late, at the wait or at done(): the same values.
TEST(LocalConformanceWithLatency, Passes) {
  for (const auto& one : conformance::group_cases())
    if (one.name == "several_in_flight" || one.name == "background" || one.name == "queue_stream" ||
        one.name == "mixed_sequence" || one.name == "words")
      for (int ranks : {1, 3})
        with_ranks(ranks, [&](Group& group) { one.run(group); },
                   {.latency_s = 5e-4, .bytes_per_s = 1e9, .deadline_s = 60});
}

TEST(SoloConformance, Passes) {
  auto group = solo_group();
  for (const auto& one : conformance::group_cases())
    if (one.name != "send_recv" && one.name != "tags")
      one.run(*group);  // a group of one has nobody to send to
}
