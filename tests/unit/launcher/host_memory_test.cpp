// What a host's memory has: /proc/meminfo and cgroups of both versions, below a root of our own.
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "launcher/memory/host.h"
#include "tests/support/scratch_folder.h"

namespace lockstep {

using namespace launcher;

namespace {

class Host : public ::testing::Test {
 protected:
  void SetUp() override { unsetenv("LOCKSTEP_MEMORY"); }
  void file(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(scratch_.path(path)).parent_path());
    scratch_.write(path, text);
  }
  HostMemory found() {
    std::string root = scratch_.path("");
    while (root.back() == '/') root.pop_back();
    return host_memory(root);
  }
  ScratchFolder scratch_;
};
constexpr int64_t kGiB = int64_t{1} << 30;

TEST_F(Host, WhatIsAvailableWithSwap) {
  file("proc/meminfo",
       "MemTotal: 9000000 kB\nMemFree: 1 kB\nMemAvailable:    2097152 kB\nSwapFree:   1048576 kB\n");
  EXPECT_EQ(found().bytes, 3 * kGiB);
  EXPECT_EQ(found().source, "MemAvailable and SwapFree of /proc/meminfo");
}

TEST_F(Host, RoomForMoreOfEachRank) {
  file("proc/meminfo", "MemAvailable: 2097152 kB\n");
  std::string root = scratch_.path("");
  while (root.back() == '/') root.pop_back();
  EXPECT_TRUE(room_for_more(kGiB, 1, root));
  EXPECT_FALSE(room_for_more(kGiB, 2, root));  // a tenth is left to spare
  EXPECT_TRUE(room_for_more(kGiB / 2, 3, root));
  setenv("LOCKSTEP_MEMORY", str(resident_bytes() + kGiB).c_str(), 1);
  EXPECT_TRUE(room_for_more(kGiB / 2, 1, root));
  EXPECT_FALSE(room_for_more(kGiB, 1, root));
  unsetenv("LOCKSTEP_MEMORY");
}

TEST_F(Host, MomentsOfRanksWithDevicesOfTheirOwn) {
  MemoryNeeds needs{.parts = {}, .on_host = 2 * kGiB};
  const HostMemory host{3 * kGiB, "a rule"};
  EXPECT_EQ(offloaded_does_not_fit_host("big", 1, needs, host), "");
  EXPECT_EQ(offloaded_does_not_fit_host("big", 8, {}, host), "");
  EXPECT_EQ(offloaded_does_not_fit_host("big", 8, needs, {}), "") << "nothing is known";
  EXPECT_EQ(
      offloaded_does_not_fit_host("big", 2, needs, host),
      "big keeps its moments on the host (optim.offload), and they do not fit there: 2 ranks have 4.00 GiB "
      "together, 2.00 GiB each; there are 3.00 GiB (a rule). Take more hosts, optim.moments bf16, or "
      "optim.offload false");
  EXPECT_EQ(
      offloaded_does_not_fit_host("big", 1, needs, {kGiB, "a rule"}),
      "big keeps its moments on the host (optim.offload), and they do not fit there: its rank has 2.00 GiB; "
      "there are 1.00 GiB (a rule). Take more hosts, optim.moments bf16, or optim.offload false");
  needs.away = kGiB;
  EXPECT_EQ(offloaded_does_not_fit_host("big", 1, needs, {3 * kGiB, "a rule"}), "");
  EXPECT_EQ(
      offloaded_does_not_fit_host("big", 2, needs, {5 * kGiB, "a rule"}),
      "big keeps its moments on the host (optim.offload) and its activations on the host "
      "(compile.offload_activations), and they do not fit there: 2 ranks have 6.00 GiB together, 3.00 GiB "
      "each; there are 5.00 GiB (a rule). Take more hosts, optim.moments bf16, or optim.offload false, a "
      "larger compile.memory_budget, or compile.offload_activations false");
  needs.on_host = 0;
  EXPECT_EQ(
      offloaded_does_not_fit_host("big", 2, needs, {kGiB, "a rule"}),
      "big keeps its activations on the host (compile.offload_activations), and they do not fit there: 2 "
      "ranks have 2.00 GiB together, 1.00 GiB each; there are 1.00 GiB (a rule). Take more hosts, a larger "
      "compile.memory_budget, or compile.offload_activations false");
}

TEST_F(Host, TheTightestCgroupOfVersion2OnTheWay) {
  file("proc/meminfo", "MemAvailable: 20971520 kB\n");
  file("proc/self/cgroup", "0::/slice/job\n");
  file("sys/fs/cgroup/slice/job/memory.max", "max\n");
  file("sys/fs/cgroup/slice/memory.max", str(4 * kGiB, "\n"));
  file("sys/fs/cgroup/slice/memory.current", str(3 * kGiB, "\n"));
  file("sys/fs/cgroup/slice/memory.stat", str("anon 1\nfile ", 2 * kGiB, "\nkernel 7\n"));  // files give way
  EXPECT_EQ(found().bytes, 3 * kGiB);
  EXPECT_EQ(found().source, "the cgroup /slice may hold 4.00 GiB (memory.max) and holds 1.00 GiB");
}

TEST_F(Host, Version1AndAPathOfAnotherNamespace) {
  file("proc/meminfo", "MemAvailable: 20971520 kB\n");
  file("proc/self/cgroup", "7:cpu,cpuacct:/x\n4:memory:/docker/abc\n");
  file("sys/fs/cgroup/memory/memory.limit_in_bytes", str(2 * kGiB, "\n"));
  file("sys/fs/cgroup/memory/memory.usage_in_bytes", str(kGiB, "\n"));
  EXPECT_EQ(found().bytes, kGiB);
  file("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");  // none
  EXPECT_EQ(found().bytes, 20 * kGiB);
}

TEST_F(Host, WordsOfTheRefusalAndTheVariable) {
  MemoryNeeds needs;
  needs.parts = {{"weights", 3 * kGiB}, {"moments", 6 * kGiB}, {"driver and libraries", 8 * kGiB, true}};
  EXPECT_EQ(does_not_fit_host("big", 2, needs, {18 * kGiB, "somebody"}), "");  // exact parts alone
  EXPECT_EQ(does_not_fit_host("big", 2, needs, {17 * kGiB, "somebody"}),
            "big does not fit on this host: 2 ranks need 18.00 GiB together, 9.00 GiB each, most of it for "
            "moments (6.00 GiB); there are 17.00 GiB (somebody). Choose a "
            "smaller model or batch.micro, fewer ranks, the mesh dim dp_shard, compile.memory_budget, or "
            "more memory; trainrun plan prints the parts");
  EXPECT_EQ(does_not_fit_host("big", 1, needs, {0, ""}), "");  // not known
  setenv("LOCKSTEP_MEMORY", "1.5GiB", 1);
  EXPECT_EQ(host_memory().bytes, 3 * kGiB / 2);
  EXPECT_EQ(host_memory().source, "LOCKSTEP_MEMORY");
  setenv("LOCKSTEP_MEMORY", "much", 1);
  EXPECT_THROW(host_memory(), UserError);
  unsetenv("LOCKSTEP_MEMORY");
}

}  // namespace
}  // namespace lockstep
