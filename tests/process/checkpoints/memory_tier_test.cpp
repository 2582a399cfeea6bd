// Checkpoints in the host's memory: a run that loses a rank, its trainrun or both goes on from them with the
// same bits, and nothing of them is left when it ends.
#include <regex>

#include "tests/support/real_run.h"

namespace lockstep::tests {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

class MemoryTier : public RealRun {
 protected:
  void SetUp() override {
    RealRun::SetUp();
    write_tiny();
  }
  void TearDown() override {
    for (const auto& folder : folders()) fs::remove_all(folder);  // of a test that failed
    RealRun::TearDown();
  }
  // A config that waits for its saves, so that it is known which are there.
  static Words words(const std::string& nproc, const std::string& memory_every, Words more = {}) {
    Words out{"--nproc",
              nproc,
              "c.json",
              "--checkpoint.memory_every=" + memory_every,
              "--checkpoint.every=50",
              "--checkpoint.async=false"};
    out.insert(out.end(), more.begin(), more.end());
    return out;
  }
  static std::string folder(const std::string& name = "run") {
    return str("/dev/shm/lockstep-memory.", geteuid(), ".", name, ".",
               trim(file_text("runs/" + name + "/memory-id")));
  }
  // All folders in memory of runs of this test.
  std::vector<std::string> folders() const {
    std::vector<std::string> out;
    for (const auto& entry : fs::directory_iterator("/dev/shm"))
      if (entry.path().filename().string().rfind("lockstep-memory.", 0) == 0 &&
          file_text(entry.path().string() + "/run").rfind(scratch_.path(""), 0) == 0)
        out.push_back(entry.path());
    return out;
  }
  // Starts a run that saves every 5 steps in memory alone, and kills its trainrun behind step 30. The newest
  // step that it kept.
  int64_t killed_run() {
    auto process = start(words("2", "5", {"--checkpoint.every=0", "--train.steps=100000", "--log.every=1"}));
    EXPECT_TRUE(until(60, [&] { return last_step("run") >= 30; })) << process->output();
    kill(process->pid(), SIGKILL);
    process->wait(10);
    EXPECT_EQ(processes_left(), Words{});
    int64_t newest = -1;
    for (const auto& entry : fs::directory_iterator(folder()))
      if (const std::string name = entry.path().filename();
          name.rfind("step-", 0) == 0 && name.find('.') == std::string::npos)
        newest = std::max<int64_t>(newest, std::stoll(name.substr(5)));
    EXPECT_GE(newest, 25);
    EXPECT_EQ(checkpoints("run"), Words{});
    return newest;
  }
};

TEST_F(MemoryTier, ALostRankCostsTheStepsSinceTheLastOne) {
  train({"--nproc", "1", "c.json", "--name=alone"});
  for (const bool fewer : {false, true}) {
    const std::string name = fewer ? "fewer" : "same";
    Words command = words("4", "5", {"--name=" + name});
    command.insert(command.begin(), {"--max-restarts", "1"});
    if (fewer) command.insert(command.begin(), {"--min-nproc", "3"});
    const auto result = trainrun(command, {{"LOCKSTEP_FAULT", "kill:rank=2,step=48"}});
    ASSERT_EQ(result.code, kExitOk) << result.output;
    EXPECT_HAS(result.output, str("restart 1 of 1 at once, from memory (step 45), with ",
                                  fewer ? "3 ranks (4 before)" : "4 ranks", "\n"));
    EXPECT_HAS(result.output, str("resumed from memory, ", folder(name), "/step-45 (step 45, state "));
    expect_same_run("alone", name);
    EXPECT_EQ(metrics(name).size(), 100u) << "each step once";
    EXPECT_EQ(checkpoints(name), (Words{"step-100", "step-50"}));
    EXPECT_EQ(folders(), Words{});
  }
}

// Beside the training, where the state is not small, the last one may not be written yet.
TEST_F(MemoryTier, KillsAtRandomWhileItSavesEveryStep) {
  const std::string wide = "--model.width=192";
  train({"--nproc", "1", "c.json", "--name=alone", wide});
  EXPECT_GT(fs::file_size("runs/alone/ckpt/step-100/rank-0.safetensors"), 4u << 20) << "see kWaited";
  auto process = start({"--nproc", "4", "--max-restarts", "10", "c.json", "--checkpoint.memory_every=1",
                        "--checkpoint.every=50", wide});
  int kills = 0;
  for (int64_t at : {20, 45, 70}) {
    if (!until(60, [&] { return last_step("run") >= at || process->wait(0) >= 0; }) || process->wait(0) >= 0)
      break;
    std::this_thread::sleep_for(std::chrono::microseconds(1700 * at / 7));
    kill(RunRecord("runs/run").pids(4, ++kills)[static_cast<size_t>(at % 4)], SIGKILL);
  }
  EXPECT_EQ(process->wait(60), kExitOk) << process->output();
  EXPECT_EQ(kills, 3);
  EXPECT_EQ(occurrences(process->output(), "resumed from memory, "), kills) << process->output();
  expect_same_run("alone", "run");
  EXPECT_EQ(folders(), Words{});
}

// Those that are stopped for it keep their state in memory.
TEST_F(MemoryTier, RanksAreTakenBackWithoutAFile) {
  const Words run{"c.json", "--train.steps=500", "--checkpoint.every=500"};
  // Late enough for steps before it.
  const std::string grow_after = str(0.2 * kSlowness);
  Words alone{"--nproc", "1", "--name=alone"},
      command{
          "--nproc", "2:3", "--max-restarts", "1", "--grow-after", grow_after, "--checkpoint.memory_every=5"};
  for (Words* words : {&alone, &command}) words->insert(words->end(), run.begin(), run.end());
  train(alone);
  const auto result = trainrun(command, {{"LOCKSTEP_FAULT", "kill:rank=1,step=48"}});
  ASSERT_EQ(result.code, kExitOk) << result.output;
  EXPECT_HAS(result.output, "restart 1 of 1 at once, from memory (step 45), with 2 ranks (3 before)\n");
  EXPECT_HAS(result.output,
             "trainrun: 2 of 3 ranks, and others can be had again: finishing the step and saving, to go on "
             "with 3 ranks\n");
  EXPECT_TRUE(std::regex_search(
      result.output, std::regex("stopped after step \\d+ to go on with other ranks; kept in memory\n")))
      << result.output;
  EXPECT_HAS(result.output, "trainrun: goes on with 3 ranks (2 before)\n");
  EXPECT_EQ(occurrences(result.output, "resumed from memory, "), 2) << result.output;
  EXPECT_EQ(checkpoints("run"), Words{"step-500"});
  EXPECT_EQ(metrics("run").size(), 500u) << "each step once";
  for (const char* what : {"loss", "grad_norm"})
    EXPECT_EQ(column(metrics("run"), what), column(metrics("alone"), what)) << what;
  EXPECT_EQ(final_hash("run"), final_hash("alone"));
  EXPECT_EQ(folders(), Words{});
}

// Whatever it meets on the way to the other ranks, nothing of the run is lost.
TEST_F(MemoryTier, AStopBesideThatLosesNothing) {
  auto process = start({"--nproc", "2:3", "--max-restarts", "1", "--grow-after", "0.2", "c.json",
                        "--train.steps=100000", "--checkpoint.memory_every=5", "--checkpoint.every=50000"},
                       {{"LOCKSTEP_FAULT", "kill:rank=1,step=48"}});
  ASSERT_TRUE(
      until(60, [&] { return process->output().find("others can be had again") != std::string::npos; }));
  kill(process->pid(), SIGTERM);
  EXPECT_EQ(process->wait(60), kExitStopped) << process->output();
  ASSERT_FALSE(steps_saved("run").empty()) << process->output();
  // Before their first step the ranks have nothing new: what was in memory is kept.
  const bool unbegun = process->output().find("before its first step") != std::string::npos;
  EXPECT_EQ(steps_saved("run").back(), unbegun ? 45 : last_step("run")) << process->output();
  EXPECT_EQ(folders(), Words{});
}

// A small state is in memory behind the step it is of.
TEST_F(MemoryTier, ASmallStateIsWaitedFor) {
  for (const bool late : {false, true}) {
    const std::string name = late ? "late" : "early";
    const auto result = trainrun({"--nproc", "2", "--max-restarts", "1", "c.json", "--name=" + name,
                                  "--checkpoint.memory_every=1", "--checkpoint.every=50"},
                                 {{"LOCKSTEP_FAULT", late ? "kill:rank=1,step=49" : "kill:rank=1,step=2"}});
    ASSERT_EQ(result.code, kExitOk) << result.output;
    EXPECT_HAS(result.output, str("restart 1 of 1 at once, from memory (step ", late ? 48 : 1, ")"));
  }
}

TEST_F(MemoryTier, WhatAKilledTrainrunLeftIsUsedAndThenRemoved) {
  const int64_t kept = killed_run();
  EXPECT_EQ(folders(), Words{folder()});
  struct stat at{};
  ASSERT_EQ(stat(folder().c_str(), &at), 0);
  EXPECT_EQ(at.st_mode & 07777, 0700u);
  const auto result = trainrun({"--nproc", "3", "c.json"});
  ASSERT_EQ(result.code, kExitOk) << result.output;
  EXPECT_HAS(result.output,
             str("resumed from memory, ", folder(), "/step-", kept, " (step ", kept, ", state "));
  EXPECT_EQ(folders(), Words{});
  train({"--nproc", "1", "c.json", "--name=alone"});
  EXPECT_EQ(final_hash("run"), final_hash("alone"));
}

TEST_F(MemoryTier, OfARunThatIsGoneNothingIsTaken) {
  killed_run();
  const std::string left = folder();
  fs::remove_all("runs/run");
  const auto result = trainrun({"--nproc", "1", "c.json", "--train.steps=3"});
  EXPECT_EQ(result.code, kExitOk) << result.output;
  EXPECT_HAS(result.output, "; starting at step 1");
  EXPECT_FALSE(fs::exists(left));
}

TEST_F(MemoryTier, ADamagedOneIsPassedOver) {
  killed_run();
  for (const auto& entry : fs::directory_iterator(folder())) {  // the one before is there, too, for a moment
    const std::string file = entry.path().string() + "/rank-0.safetensors";
    if (!fs::exists(file)) continue;
    std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekp(-3, std::ios::end);
    bytes.put('\x55');
  }
  const auto result = trainrun({"--nproc", "2", "c.json", "--train.steps=3"});
  EXPECT_EQ(result.code, kExitOk) << result.output;
  EXPECT_HAS(result.output, "are damaged: checksum ");
  EXPECT_HAS(result.output, "; it is not used");
  EXPECT_HAS(result.output, "; starting at step 1");
  EXPECT_EQ(folders(), Words{});
}

TEST_F(MemoryTier, ARunThatGivesUpKeepsItOnTheDisk) {
  train({"--nproc", "1", "c.json", "--name=alone"});
  const auto result = trainrun(words("2", "5"), {{"LOCKSTEP_FAULT", "kill:rank=1,step=48"}});
  EXPECT_EQ(result.code, kExitPeer) << result.output;
  EXPECT_HAS(result.output,
             "trainrun: the checkpoint of step 45 in memory is kept as runs/run/ckpt/step-45\n");
  EXPECT_EQ(folders(), Words{});
  EXPECT_EQ(checkpoints("run"), Words{"step-45"});
  EXPECT_EQ(trainrun({"ckpt", "verify", "runs/run/ckpt/step-45"}).code, kExitOk);
  const auto again = trainrun(words("3", "5"));
  EXPECT_EQ(again.code, kExitOk) << again.output;
  EXPECT_HAS(again.output, str("resumed from ", scratch_.path("runs/run/ckpt/step-45"), " (step 45, state "));
  expect_same_run("alone", "run");
}

// The run goes back to the disk, as it does without them.
TEST_F(MemoryTier, AStepThatIsRewoundIsNotKept) {
  const Words spike{"--train.on_spike=rewind", "--checkpoint.every=20"};
  Words with = words("1", "5", spike), without = words("1", "0", spike);
  without.emplace_back("--name=without");
  const Variables fault{{"LOCKSTEP_FAULT", "spike:rank=0,step=50"}};
  const auto result = trainrun(with, fault);
  EXPECT_EQ(result.code, kExitOk) << result.output;
  EXPECT_HAS(result.output,
             str("going on behind it from the state of ", scratch_.path("runs/run/ckpt/step-40")));
  train(without, fault);
  expect_same_run("without", "run");
}

TEST_F(MemoryTier, WithoutRoomTheRunIsRefused) {
  if (geteuid() != 0 || std::system("unshare --mount true 2>/dev/null") != 0)
    GTEST_SKIP() << "no mount namespace";
  auto refused = [&](const std::string& size) {
    Process process(
        {"/usr/bin/unshare", "--mount", "/bin/sh", "-c",
         "mount -t tmpfs -o size=" + size +
             " none /dev/shm && exec " TRAINRUN " c.json --train.steps=10 --checkpoint.memory_every=5"},
        scratch_.path("out"), {{"LOCKSTEP_CACHE", KERNEL_CACHE}});
    const int code = process.wait(60);
    return std::pair(code, process.output());
  };
  const auto [code, output] = refused("128k");
  EXPECT_EQ(code, kExitUser) << output;
  EXPECT_TRUE(std::regex_search(
      output,
      std::regex("checkpoint.memory_every keeps a checkpoint of [0-9.]+ KiB in this host's memory while it "
                 "writes the next: [0-9.]+ KiB, and /dev/shm has room for 1[0-9.]+ KiB; make it larger "
                 "\\(mount -o remount,size=SIZE /dev/shm\\), or set checkpoint.memory_every=0")))
      << output;
  EXPECT_EQ(refused("64m").first, kExitOk);
}

TEST_F(MemoryTier, WithoutTrainrunItIsNotUsed) {
  const auto result =
      trainrun({"--simulate", "2", "c.json", "--train.steps=4", "--checkpoint.memory_every=1"});
  EXPECT_EQ(result.code, kExitOk) << result.output;
  EXPECT_HAS(
      result.output,
      "checkpoint.memory_every is not used: checkpoints in memory are kept by trainrun for the ranks that "
      "it restarts, and it did not start these");
}

TEST_F(MemoryTier, ThePlanCountsIt) {
  const auto plan = trainrun(
      {"plan", "--long", "--nproc", "2", "c.json", "--train.device=cpu", "--checkpoint.memory_every=5"});
  EXPECT_HAS(plan.output, "\n  snapshots of two saves    at most ");
  EXPECT_HAS(plan.output, "\n  checkpoints in memory     at most ");
}

}  // namespace
}  // namespace lockstep::tests
