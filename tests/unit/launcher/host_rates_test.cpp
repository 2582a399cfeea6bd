// Rates of this host: measured, stored beside the kernels, and what a roofline makes of them; rooflines of
// devices that nothing was measured on.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "launcher/machine/host_cores.h"
#include "launcher/machine/host_rates.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::launcher {
namespace {

class HostRatesTest : public ::testing::Test {
 protected:
  void SetUp() override { setenv("LOCKSTEP_CACHE", scratch_.path("cache").c_str(), 1); }
  void TearDown() override { unsetenv("LOCKSTEP_CACHE"); }
  ScratchFolder scratch_;
};

TEST_F(HostRatesTest, AreMeasuredOnceAndStored) {
  EXPECT_FALSE(stored_host_rates());
  const auto measured = host_rates();
  ASSERT_TRUE(measured);
  EXPECT_EQ(measured->processor, host_processor());
  EXPECT_EQ(measured->cores, cores_of_process());
  for (const auto* table : {&measured->products, &measured->attention})
    for (const char* precision : {"fp32", "bf16"}) EXPECT_GT(table->at(precision), 1e8) << precision;
  EXPECT_GT(measured->copies, 1e8);
  EXPECT_EQ(stored_host_rates(), measured) << "to the last bit";
  EXPECT_EQ(host_rates(), measured) << "not measured again";
  EXPECT_EQ(roofline_here("cpu"), cpu_with(*measured));
  EXPECT_EQ(roofline_stored_here("cpu"), cpu_with(*measured));
}

// By affinity and by quotas of cgroups of both versions.
TEST_F(HostRatesTest, AreOfTheCoresThatThisProcessMayUse) {
  const auto quota = [this](const std::string& host, const std::string& text) {
    scratch_.write(host + "/sys/fs/cgroup/slice/cpu.max", text + " 100000\n");
    return cores_of_process(scratch_.path(host));
  };
  scratch_.write("v2/proc/self/cgroup", std::string("0::/slice/job\n"));
  scratch_.write("v2/sys/fs/cgroup/slice/job/cpu.max", std::string("max 100000\n"));
  EXPECT_FALSE(cgroup_cores(scratch_.path("v2")));
  scratch_.write("v2/sys/fs/cgroup/slice/cpu.max", std::string("150000 100000\n"));
  EXPECT_EQ(cgroup_cores(scratch_.path("v2")), 1.5) << "a group above it";
  scratch_.write("v1/proc/self/cgroup", std::string("4:cpu,cpuacct:/job\n3:cpuset:/job\n"));
  scratch_.write("v1/sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", std::string("50000\n"));
  scratch_.write("v1/sys/fs/cgroup/cpu/job/cpu.cfs_period_us", std::string("100000\n"));
  EXPECT_EQ(cgroup_cores(scratch_.path("v1")), 0.5);
  EXPECT_FALSE(cgroup_cores(scratch_.path("none")));
  EXPECT_EQ(cores_of_process(scratch_.path("none")), cores_by_affinity());
  EXPECT_EQ(cores_of_process(scratch_.path("v1")), 1) << "half a core is one";
  EXPECT_EQ(quota("v2", "150000"), 1);
  EXPECT_EQ(quota("v2", "200000"), std::min<int64_t>(2, cores_by_affinity()));
  EXPECT_EQ(quota("v2", "900000000"), cores_by_affinity());
  for (const char* none : {"max", "-1", "0", "x", "99999999999999999999"})
    EXPECT_EQ(quota("v2", none), cores_by_affinity()) << none;
}

TEST_F(HostRatesTest, OfAnotherProcessorOrFormCountAsNone) {
  HostRates rates{.processor = host_processor(), .cores = cores_of_process()};
  rates.products = rates.attention = {{"fp32", 1e9}, {"bf16", 1e9}};
  rates.copies = 1e9, rates.copying = 1;
  for (auto change : {+[](HostRates& r) { r.processor += "x"; }, +[](HostRates& r) { ++r.cores; }}) {
    HostRates other = rates;
    change(other);
    store(other);
    EXPECT_FALSE(stored_host_rates());
    EXPECT_EQ(roofline_stored_here("cpu"), roofline_named("cpu")) << "the table stands in";
  }
  store(rates);  // beside them
  EXPECT_EQ(stored_host_rates(), rates);
}

TEST_F(HostRatesTest, MeasuredBesideOthersHoldForAnHour) {
  HostRates rates{.processor = host_processor(), .cores = cores_of_process()};
  rates.products = rates.attention = {{"fp32", 1e9}, {"bf16", 1e9}};
  rates.copies = 1e9, rates.copying = 1, rates.quiet = false;
  const HostRates now = measure_host_rates();
  rates.at = now.at - 1800;
  store(rates);
  EXPECT_EQ(host_rates(), rates);
  rates.at = now.at - 7200;
  store(rates);
  const auto again = host_rates();
  ASSERT_TRUE(again);
  EXPECT_GE(again->at, now.at);
  rates.quiet = true;
  store(rates);
  EXPECT_EQ(host_rates(), rates) << "those of a quiet host stay";
}

TEST_F(HostRatesTest, MakeARoofline) {
  const Roofline table = roofline_named("cpu");
  HostRates rates{.processor = "a thing", .cores = 8};  // four times the table's cores, at half their rate
  rates.products = {{"fp32", 2 * table.contraction.at("fp32")}, {"bf16", 5e11}};
  rates.attention = {{"fp32", 1e11}, {"bf16", 2e11}};
  rates.copies = 7.2e10, rates.copying = 8;
  const Roofline of = cpu_with(rates);
  EXPECT_EQ(of.name, "cpu");
  EXPECT_EQ(of.cores, 8);
  EXPECT_EQ(of.contraction, rates.products);
  EXPECT_EQ(of.attention, rates.attention);
  EXPECT_DOUBLE_EQ(of.kernels, 2 * table.kernels);
  EXPECT_DOUBLE_EQ(of.launch, 2 * table.launch);
  EXPECT_EQ(of.measured_on, "measured here: 8 cores of a thing");
  EXPECT_LT(of.inside.bandwidth, table.inside.bandwidth);
  rates.link = {3e9, 2e-5};
  EXPECT_EQ(cpu_with(rates).inside, rates.link);
}

TEST(Roofline, OfDevicesThatNothingWasMeasuredOn) {
  const Roofline h200 = roofline_named("h200");
  for (const char* name : {"a100", "h100", "b200"}) {
    const Roofline one = roofline_named(name);
    EXPECT_EQ(one.name, name);
    EXPECT_EQ(one.measured_on, "not measured: the public data sheet, at an H200's share of its own");
    EXPECT_GT(one.capacity, int64_t{70} << 30);
    EXPECT_EQ(one.ranks_per_node, 8);
  }
  EXPECT_LT(products_rate(roofline_named("a100"), "bf16"), products_rate(h200, "bf16"));
  EXPECT_EQ(products_rate(roofline_named("h100"), "bf16"), products_rate(h200, "bf16"));
  EXPECT_LT(roofline_named("h100").memory, h200.memory);
  EXPECT_GT(products_rate(roofline_named("b200"), "float8"), products_rate(h200, "float8"));
  EXPECT_EQ(products_rate(roofline_named("a100"), "float8"), products_rate(roofline_named("a100"), "bf16"));
}

}  // namespace
}  // namespace lockstep::launcher
