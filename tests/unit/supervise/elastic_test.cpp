// Which ranks the next attempt has, how often a run is started anew, and when ranks are taken back.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <thread>

#include "core/base/error.h"
#include "launcher/cli/words/care_flags.h"
#include "launcher/supervise/hosts/growth.h"
#include "launcher/supervise/hosts/membership.h"
#include "launcher/supervise/restarts.h"
#include "tests/support/scratch_folder.h"

namespace lockstep {

using namespace launcher;
using namespace launcher::cli;

namespace {

LaunchOptions on_hosts(std::vector<HostRanks> list, int64_t least, std::vector<HostRanks> spare = {}) {
  LaunchOptions out;
  out.hosts.reach = Reach::ssh;
  out.hosts.list = std::move(list), out.hosts.spare = std::move(spare);
  out.nproc = out.hosts.ranks(), out.min_nproc = least;
  return out;
}
using Hosts = std::vector<HostRanks>;

void expect_refused(const std::function<void()>& act, const std::string& words) {
  try {
    act();
    ADD_FAILURE() << "not refused: " << words;
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
}

TEST(Membership, RanksOfOneHostGoAndComeBack) {
  LaunchOptions options;
  options.nproc = 4, options.min_nproc = 2;
  Membership run(options);
  run.lose({}, {3});
  EXPECT_EQ(run.nproc(), 3);
  run.lose({}, {0, 1});
  EXPECT_EQ(run.nproc(), 2) << "not below the least";
  EXPECT_TRUE(run.ranks_away());
  run.take_back({});
  EXPECT_EQ(run.nproc(), 4);
  EXPECT_TRUE(run.whole());
  options.min_nproc = 0;
  Membership fixed(options);
  fixed.lose({}, {1});
  EXPECT_TRUE(fixed.whole()) << "without a least number all try again";
}

TEST(Membership, AHostThatIsLostIsLeftOutAndTakenBack) {
  Membership run(on_hosts({{"a", 2}, {"b", 2}, {"c", 1}}, 2));
  run.lose({"b"}, {});
  EXPECT_EQ(run.hosts().list, (Hosts{{"a", 2}, {"c", 1}}));
  EXPECT_EQ(run.away(), (Hosts{{"b", 2}}));
  EXPECT_FALSE(run.ranks_away());
  run.take_back({"x"});
  EXPECT_EQ(run.nproc(), 3) << "b did not answer";
  run.take_back({"b"});
  EXPECT_EQ(run.hosts().list, (Hosts{{"a", 2}, {"c", 1}, {"b", 2}}));
  EXPECT_TRUE(run.whole());
  EXPECT_TRUE(run.away().empty());
  run.lose({}, {4});  // a rank of b, which is there
  EXPECT_EQ(run.hosts().list, (Hosts{{"a", 2}, {"c", 1}, {"b", 1}}));
  EXPECT_TRUE(run.ranks_away());
  run.take_back({});
  EXPECT_TRUE(run.whole());
}

TEST(Membership, TooFewAreNotGoneOnWith) {
  Membership run(on_hosts({{"a", 2}, {"b", 2}}, 3));
  run.lose({"b"}, {});
  EXPECT_TRUE(run.whole()) << "2 are below 3: the same hosts try again";
  Membership fixed(on_hosts({{"a", 2}, {"b", 2}}, 0));
  fixed.lose({}, {0});
  EXPECT_TRUE(fixed.whole());
}

TEST(Membership, SpareHostsTakeThePlaceOfLostOnes) {
  Membership run(on_hosts({{"a", 2}, {"b", 2}}, 0, {{"s", 4}, {"t", 2}}));
  run.lose({"a"}, {});
  EXPECT_EQ(run.hosts().list, (Hosts{{"b", 2}, {"s", 2}}));
  EXPECT_TRUE(run.whole());
  run.lose({"b"}, {});
  EXPECT_EQ(run.hosts().list, (Hosts{{"s", 2}, {"t", 2}}));
  run.lose({"s"}, {});
  EXPECT_EQ(run.hosts().list, (Hosts{{"s", 2}, {"t", 2}})) << "no host is left for it";
  run.take_back({"a"});
  EXPECT_EQ(run.hosts().list.size(), 2u) << "all places are taken";
  EXPECT_EQ(run.hosts().spare, (Hosts{{"a", 2}})) << "a is spare now";
  run.lose({"s"}, {});
  EXPECT_EQ(run.hosts().list, (Hosts{{"t", 2}, {"a", 2}}));
}

TEST(Membership, ASlowHostIsLeftOutWhereTheRestIsEnough) {
  Membership run(on_hosts({{"a", 2}, {"b", 2}}, 2));
  EXPECT_FALSE(run.leave_out("x"));
  EXPECT_TRUE(run.leave_out("a"));
  EXPECT_EQ(run.hosts().list, (Hosts{{"b", 2}}));
  EXPECT_FALSE(run.leave_out("b"));
  EXPECT_FALSE(Membership(on_hosts({{"a", 2}, {"b", 2}}, 0)).leave_out("a"));
  EXPECT_TRUE(Membership(on_hosts({{"a", 2}, {"b", 2}}, 0, {{"s", 2}})).leave_out("a"));
}

TEST(Membership, WhoComputesWrongDoesNotComeBack) {
  LaunchOptions options;
  options.nproc = 4, options.min_nproc = 2;
  Membership run(options);
  EXPECT_TRUE(run.exclude({1}, 0));
  EXPECT_EQ(run.nproc(), 3);
  EXPECT_TRUE(run.whole()) << "nothing is taken back";
  EXPECT_FALSE(run.exclude({0, 2}, 0)) << "1 is below the least";
  EXPECT_EQ(run.nproc(), 3);
  EXPECT_TRUE(run.exclude({0}, 7)) << "of 7 GPUs 3 are taken";
  EXPECT_EQ(run.nproc(), 3);
  EXPECT_TRUE(run.exclude({0}, 2));
  EXPECT_EQ(run.nproc(), 2);
  options.min_nproc = 0;
  EXPECT_FALSE(Membership(options).exclude({1}, 0)) << "no fewer than 4 were asked for";
  EXPECT_TRUE(Membership(options).exclude({1}, 5));
}

TEST(Membership, AHostThatComputesWrongDoesNotComeBack) {
  Membership run(on_hosts({{"a", 2}, {"b", 2}, {"c", 2}}, 2));
  EXPECT_TRUE(run.exclude({2, 3}, 0));
  EXPECT_EQ(run.hosts().list, (Hosts{{"a", 2}, {"c", 2}}));
  EXPECT_TRUE(run.away().empty());
  EXPECT_TRUE(run.whole());
  run.lose({"a"}, {});
  EXPECT_EQ(run.away(), (Hosts{{"a", 2}}));
  run.take_back({"a", "b"});
  EXPECT_EQ(run.hosts().list, (Hosts{{"c", 2}, {"a", 2}}));
  Membership spared(on_hosts({{"a", 2}, {"b", 2}}, 0, {{"s", 4}}));
  EXPECT_TRUE(spared.exclude({1}, 0));
  EXPECT_EQ(spared.hosts().list, (Hosts{{"b", 2}, {"s", 2}}));
  EXPECT_FALSE(spared.exclude({1}, 0)) << "no host is left for it";
}

TEST(Restarts, AreCountedWithinTheirTime) {
  LaunchOptions options;
  options.max_restarts = 2;
  RestartBudget all(options);
  EXPECT_TRUE(all.take(1));
  EXPECT_EQ(all.words(1), "restart 1 of 2");
  EXPECT_TRUE(all.take(2));
  EXPECT_FALSE(all.take(1e6));
  options.restart_window = 3600;
  RestartBudget hourly(options);
  EXPECT_TRUE(hourly.take(0));
  EXPECT_TRUE(hourly.take(1800));
  EXPECT_EQ(hourly.words(1800), "restart 2 of 2 within 60 min");
  EXPECT_FALSE(hourly.take(3599));
  EXPECT_TRUE(hourly.take(3601)) << "the first is over an hour old";
  EXPECT_FALSE(hourly.take(3602));
}

TEST(Restarts, GrowthWaitsAndWaitsLongerWhereItFails) {
  LaunchOptions options;
  options.nproc = 4, options.min_nproc = 2, options.grow_after = 10;
  Membership run(options);
  Growth growth(options);
  growth.begin(false, 0);
  EXPECT_FALSE(growth.due(run, 100)) << "nothing is missing";
  EXPECT_FALSE(growth.failed(100));
  run.lose({}, {1});
  growth.begin(false, 100);
  EXPECT_FALSE(growth.due(run, 109));
  EXPECT_TRUE(growth.due(run, 111));
  run.take_back({});
  growth.begin(true, 112);
  EXPECT_TRUE(growth.failed(115)) << "it lasted 3 s of 10";
  run.lose({}, {1});
  growth.begin(false, 115);
  EXPECT_FALSE(growth.due(run, 126));
  EXPECT_TRUE(growth.due(run, 136));
  growth.begin(true, 137);
  EXPECT_FALSE(growth.failed(200)) << "it lasted";
  options.grow_after = 0;
  Growth never(options);
  never.begin(false, 0);
  EXPECT_FALSE(never.due(run, 1e6));
}

TEST(Restarts, AHostThatAnswersIsBack) {
  ScratchFolder folder;
  folder.write("agent", "#!/bin/sh\n[ \"$1\" = b ] && [ \"$2\" = true ]\n");
  std::filesystem::permissions(folder.path("agent"), std::filesystem::perms::owner_all);
  setenv("OMPI_MCA_plm_rsh_agent", folder.path("agent").c_str(), 1);
  const std::string path = std::getenv("PATH");
  setenv("PATH", (folder.path("") + ":" + path).c_str(), 1);
  setenv("OMPI_MCA_plm_rsh_agent", "agent : rsh", 1);
  HostProbe probe;
  const Hosts away{{"a", 1}, {"b", 1}};
  double now = 100;
  for (int i = 0; i < 400 && probe.answered(away, now).empty(); ++i, now += 0.5)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(probe.answered(away, now), std::vector<std::string>{"b"});
  setenv("PATH", path.c_str(), 1);
  unsetenv("OMPI_MCA_plm_rsh_agent");
}

LaunchOptions cared(const CareFlags& flags, int64_t nproc = 4) {
  LaunchOptions out;
  out.nproc = nproc;
  read_care_flags(flags, out);
  return out;
}

TEST(CareFlags, AreRead) {
  auto out = cared({.max_restarts = "3/1.5h", .timeout = "90m"});
  EXPECT_EQ(out.max_restarts, 3);
  EXPECT_EQ(out.restart_window, 5400);
  EXPECT_EQ(out.timeout, 5400);
  EXPECT_EQ(cared({}).max_restarts, 0);
  EXPECT_FALSE(cared({}).shown);
  using Ranks = std::vector<int64_t>;
  EXPECT_EQ(*cared({.tee = "3"}).shown, (Ranks{0, 1, 2, 3}));
  EXPECT_EQ(*cared({.tee = "0"}).shown, Ranks{});
  EXPECT_EQ(*cared({.tee = "0:3,2:3,1:0"}).shown, (Ranks{0, 2}));
  EXPECT_EQ(*cared({.only = "1,3"}).shown, (Ranks{1, 3}));
  EXPECT_EQ(*cared({.tee = "0:3,1:3", .only = "1,3"}).shown, Ranks{1});
  EXPECT_EQ(read_duration("2d", "x"), 172800);
  EXPECT_EQ(read_duration("15s", "x"), 15);
}

TEST(CareFlags, AVariableIsSetHereAndForTheRanks) {
  setenv("ELASTIC_TEST_OWN", "there", 1);
  auto out = cared({.env = {"ELASTIC_TEST_NEW=a b", "ELASTIC_TEST_OWN"}});
  EXPECT_EQ(out.variables, (std::vector<std::pair<std::string, std::string>>{{"ELASTIC_TEST_NEW", "a b"},
                                                                             {"ELASTIC_TEST_OWN", "there"}}));
  EXPECT_STREQ(std::getenv("ELASTIC_TEST_NEW"), "a b");
  unsetenv("ELASTIC_TEST_OWN"), unsetenv("ELASTIC_TEST_NEW");
}

TEST(CareFlags, WhatCannotBeReadIsRefused) {
  auto refused = [](const CareFlags& flags, const std::string& words) {
    expect_refused([&] { cared(flags); }, words);
  };
  refused({.max_restarts = "many"},
          "--max-restarts is \"many\"; give a number, 0 or more, or a number within a time, as in 3/1h");
  refused(
      {.max_restarts = "3/soon"},
      "--max-restarts N/TIME: \"soon\" is no time; give seconds, or a number with s, m, h or d, as in 90, "
      "15m, 1.5h");
  refused({.timeout = "-5"}, "--timeout: \"-5\" is no time");
  refused({.timeout = "5y"}, "--timeout: \"5y\" is no time");
  refused({.tee = "1"},
          "--tee 1: a rank's two streams go to one log, so both are shown or neither: give 3 or 0");
  refused({.tee = "7:3"}, "--tee names rank \"7\"; the ranks are 0 to 3");
  refused({.only = "x"}, "--local-ranks-filter names rank \"x\"; the ranks are 0 to 3");
  refused({.env = {"A-B=1"}}, "--env is \"A-B=1\"; give NAME=VALUE, or NAME for a variable that is set here");
  refused({.env = {"RANK=1"}}, "--env RANK: trainrun sets this variable of each rank");
  refused(
      {.env = {"NO_SUCH_VARIABLE"}},
      "--env NO_SUCH_VARIABLE: the variable is not set here; set it, or give --env NO_SUCH_VARIABLE=VALUE");
  LaunchOptions one;
  one.slow_host = 3;
  expect_refused([&] { read_care_flags({}, one); },
                 "--slow-host 3 leaves out one of several hosts, and this run has one");
}

TEST(CareFlags, ARangeOfRanks) {
  LaunchOptions launch;
  launch.nproc = 8;
  read_nproc_range(split_nproc("2:8"), launch);
  EXPECT_EQ(launch.min_nproc, 2);
  for (const char* text : {"0:8", "9:8", "x:8", ":8"})
    expect_refused([&] { read_nproc_range(split_nproc(text), launch); },
                   str("--nproc is \"", text, "\"; give MIN:MAX with 1 <= MIN <= MAX, as in 2:8"));
  launch.min_nproc = 3;
  expect_refused([&] { read_nproc_range(split_nproc("2:8"), launch); },
                 "--nproc 2:8 and --min-nproc 3 say different least numbers of ranks");
  LaunchOptions several = on_hosts({{"a", 8}}, 0);
  expect_refused([&] { read_nproc_range(split_nproc("2:8"), several); },
                 "--nproc 2:8 is a range for one host; hosts come and go whole: give --nnodes MIN:MAX");
}

}  // namespace
}  // namespace lockstep
