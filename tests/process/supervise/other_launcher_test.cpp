// Ranks that another launcher starts by RANK, WORLD_SIZE and MASTER_ADDR, as torchrun does, for a config and
// for a program of a user's own: one run, with the bits of trainrun's own.
#include <regex>

#include "tests/support/real_run.h"

namespace lockstep::tests {
namespace {

using Words = std::vector<std::string>;

class OtherLauncher : public RealRun {
 protected:
  // As torchrun has it; the port is never opened on one host, but tells launches of one host apart.
  Variables place(int rank, int ranks, Variables more = {}) const {
    Variables out{{"RANK", str(rank)},
                  {"WORLD_SIZE", str(ranks)},
                  {"LOCAL_RANK", str(rank)},
                  {"LOCAL_WORLD_SIZE", str(ranks)},
                  {"GROUP_RANK", "0"},
                  {"MASTER_ADDR", "127.0.0.1"},
                  {"MASTER_PORT", str(20000 + getpid() % 20000)},
                  {"LOCKSTEP_CACHE", KERNEL_CACHE},
                  {"PATH", str(std::filesystem::path(TRAINRUN).parent_path().string(), ":", getenv("PATH"))}};
    for (const auto& [name, value] : more) out[name] = value;
    return out;
  }
  std::vector<std::unique_ptr<Process>> all(const Words& words, int ranks, const Variables& more = {}) const {
    std::vector<std::unique_ptr<Process>> out;
    for (int rank = ranks - 1; rank >= 0; --rank)  // the first one comes last
      out.insert(out.begin(),
                 std::make_unique<Process>(words, scratch_.path(str("out", rank)), place(rank, ranks, more)));
    return out;
  }
};

TEST_F(OtherLauncher, ItsRanksAreOneRun) {
  write_tiny();
  train({"--nproc", "1", "c.json", "--name=alone"});
  const auto ranks = all({TRAINRUN, "c.json", "--train.device=cpu", "--name=torch"}, 3);
  for (const auto& rank : ranks) EXPECT_EQ(rank->wait(100), kExitOk) << rank->output();
  EXPECT_HAS(ranks[0]->output(), "mesh [dp_replicate=3]");
  EXPECT_EQ(ranks[1]->output() + ranks[2]->output(), "");
  expect_same_run("alone", "torch");
}

TEST_F(OtherLauncher, AProgramOfItsRanksIsOneRun) {
  const Words words{LOOP_PROGRAM, "runs/own", "20", "--train.device=cpu"};
  Process alone(words, scratch_.path("alone"), {{"LOCKSTEP_CACHE", KERNEL_CACHE}});
  ASSERT_EQ(alone.wait(60), kExitOk) << alone.output();
  std::smatch state;
  const std::string said = alone.output();
  ASSERT_TRUE(std::regex_search(said, state, std::regex("step 20: state [0-9a-f]{32}\n"))) << said;
  std::filesystem::remove_all("runs");
  const auto ranks = all(words, 2);
  for (const auto& rank : ranks) EXPECT_EQ(rank->wait(100), kExitOk) << rank->output();
  EXPECT_HAS(ranks[0]->output(), state.str());
  EXPECT_HAS(ranks[0]->output(),
             "logs are in runs/loop_program, all else of the run is in runs/own; one folder for both: "
             "trainrun --name=own before the program\n");
  EXPECT_EQ(ranks[1]->output(), "");
  EXPECT_TRUE(std::filesystem::exists(RunRecord("runs/loop_program").log_dir() + "/rank-1.log"));
}

// A scheduler's signal reaches all of them.
TEST_F(OtherLauncher, AStopOfAllSaves) {
  write_tiny();
  const auto ranks = all({TRAINRUN, "c.json", "--train.device=cpu", "--train.steps=100000"}, 2);
  ASSERT_TRUE(until(60, [&] { return last_step("run") >= 10; })) << ranks[0]->output();
  for (const auto& rank : ranks) kill(rank->pid(), SIGTERM);
  EXPECT_EQ(ranks[0]->wait(60), kExitStopped) << ranks[0]->output();
  EXPECT_EQ(ranks[1]->wait(60), kExitOk) << ranks[1]->output();
  EXPECT_EQ(steps_saved("run").back(), last_step("run"));
}

TEST_F(OtherLauncher, WhatDoesNotFitIsTold) {
  write_tiny();
  auto refused = [&](int rank, int ranks, const Variables& more, const std::string& words) {
    Process process({TRAINRUN, "c.json"}, scratch_.path("out"), place(rank, ranks, more));
    EXPECT_EQ(process.wait(30), kExitUser) << process.output();
    EXPECT_HAS(process.output(), words);
    EXPECT_FALSE(std::filesystem::exists("runs"));
  };
  refused(
      1, 2, {{"LOCKSTEP_DEADLINE", "5,1"}},
      "this process is rank 1 of 2 by RANK and WORLD_SIZE, and waits for the first of its host (LOCAL_RANK "
      "0), which starts all of them: it did not come within 1 s, or has ended");
  refused(
      2, 3, {{"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "2"}},
      "this process is rank 2 of 3, 2 of them on this host (RANK, WORLD_SIZE, LOCAL_WORLD_SIZE); ranks go "
      "from 0, and each host has as many");
  refused(
      3, 4, {{"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "2"}},
      "this process is rank 3 of 4 and rank 0 of 2 on its host (LOCAL_RANK, LOCAL_WORLD_SIZE), where rank 1 "
      "is meant: ranks of a host follow one another");
  refused(0, 2, {{"WORLD_SIZE", "two"}}, "environment: WORLD_SIZE is \"two\"; it must be a number");
  // With a flag that says where ranks are, each would start the whole run.
  Process process({TRAINRUN, "--nproc", "2", "c.json"}, scratch_.path("out"), place(0, 2));
  EXPECT_EQ(process.wait(30), kExitUser);
  EXPECT_HAS(process.output(), "each of them would start the whole run");
}

}  // namespace
}  // namespace lockstep::tests
