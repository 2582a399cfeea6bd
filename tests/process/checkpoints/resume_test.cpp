// A run that is killed, stopped or started again on another number of ranks ends with the bits of a run that
// was left alone.
#include "tests/support/real_run.h"

namespace lockstep::tests {
namespace {

class Resume : public RealRun {
 protected:
  // Waits until metrics.jsonl of a run has a step of at least `step`.
  static bool reaches(const std::string& name, int64_t step) {
    auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (last_step(name) < step) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
  }
  static double seconds_since(std::chrono::steady_clock::time_point then) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - then).count();
  }
  // The next start goes on from the newest checkpoint and ends as the run "alone" did.
  void resume_and_compare(const std::string& name, int nproc, int64_t from,
                          std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"--nproc", str(nproc), "c.json", "--name=" + name});
    auto result = trainrun(more);
    ASSERT_EQ(result.code, kExitOk) << result.output;
    EXPECT_HAS(result.output, str("resumed from ", scratch_.path("runs/" + name + "/ckpt/step-"), from,
                                  " (step ", from, ", state "));
    EXPECT_EQ(result.output.find("bits may change"), std::string::npos) << result.output;
    EXPECT_EQ(metrics(name).size(), 100u) << "each step once";
    expect_same_run("alone", name);
  }
};

TEST_F(Resume, OneHashAfterAnInjectedKillAndOnOtherRanks) {
  write_tiny();
  train({"--nproc", "1", "c.json", "--name=alone"});
  auto result = trainrun({"--nproc", "4", "c.json", "--checkpoint.async=false"},
                         {{"LOCKSTEP_FAULT", "kill:rank=2,step=60"}});
  EXPECT_EQ(result.code, kExitPeer) << result.output;
  EXPECT_HAS(result.output, "root cause: rank 2 died: SIGKILL (9)");
  EXPECT_HAS(result.output, "; step 60");
  EXPECT_HAS(result.output, "the same command continues from the last checkpoint");
  EXPECT_EQ(processes_left(), std::vector<std::string>{});
  EXPECT_GE(last_step("run"), 58);
  EXPECT_EQ(checkpoints("run"), (std::vector<std::string>{"step-20", "step-40"}));
  resume_and_compare("run", 3, 40);
}

// Where moments lie is no part of a checkpoint.
TEST_F(Resume, OneHashAcrossMomentsOnTheHost) {
  write_tiny();
  train({"--nproc", "1", "c.json", "--name=alone"});
  const std::string host = "--optim.offload=true", device = "--optim.offload=false";
  for (const auto& [before, after] : {std::pair{host, device}, {device, host}}) {
    const std::string name = before == host ? "from-host" : "to-host";
    auto result = trainrun({"--nproc", "2", "c.json", "--name=" + name, "--checkpoint.async=false", before},
                           {{"LOCKSTEP_FAULT", "kill:rank=1,step=60"}});
    EXPECT_EQ(result.code, kExitPeer) << result.output;
    resume_and_compare(name, 3, 40, {after});
  }
}

// The process is killed from outside, at whatever it does then.
TEST_F(Resume, OneHashAfterARealKill) {
  write_tiny(48);
  train({"--nproc", "1", "c.json", "--name=alone"});
  for (int victim : {3, 0}) {
    std::string name = str("killed-", victim);
    auto process = start({"--nproc", "4", "c.json", "--name=" + name});
    RunRecord record("runs/" + name);
    auto pids = record.pids(4);
    ASSERT_TRUE(reaches(name, 57)) << process->output();
    ASSERT_EQ(kill(pids[static_cast<size_t>(victim)], SIGKILL), 0) << "the run was over before it was killed";
    auto then = std::chrono::steady_clock::now();
    EXPECT_EQ(process->wait(20), kExitPeer) << process->output();
    EXPECT_LT(seconds_since(then), 8 * kSlowness);
    EXPECT_HAS(process->output(), str("root cause: rank ", victim, " died: SIGKILL (9)"));
    EXPECT_TRUE(all_gone(pids, 0));
    EXPECT_EQ(processes_left(), std::vector<std::string>{});
    const auto saved = steps_saved(name);  // `latest` may name the one before: it is written after the commit
    ASSERT_FALSE(saved.empty());
    EXPECT_LT(saved.back(), 100);
    resume_and_compare(name, 3, saved.back());
  }
}

TEST_F(Resume, SigtermSavesAndTheNextStartGoesOnThere) {
  write_tiny(48);
  train({"--nproc", "1", "c.json", "--name=alone"});
  for (int nproc : {1, 4}) {
    std::string name = str("stopped-", nproc);
    auto process = start({"--nproc", str(nproc), "c.json", "--name=" + name});
    ASSERT_TRUE(reaches(name, 27)) << process->output();
    kill(process->pid(), SIGTERM);
    EXPECT_EQ(process->wait(20), kExitStopped) << process->output();
    int64_t step = last_step(name);
    ASSERT_LT(step, 100) << "the run was over before it was stopped";
    EXPECT_HAS(process->output(), str("stopped on request after step ", step, "; saved in "));
    EXPECT_HAS(process->output(),
               "trainrun: stopped on request, saved; the same command continues the run\n");
    EXPECT_EQ(file_text("runs/" + name + "/ckpt/latest"), str("step-", step, "\n"));
    EXPECT_EQ(processes_left(), std::vector<std::string>{});
    // The row of the step at which it stopped has a state hash and a validation loss that the other run does
    // not.
    auto result = trainrun({"--nproc", str(nproc == 1 ? 3 : 2), "c.json", "--name=" + name});
    ASSERT_EQ(result.code, kExitOk) << result.output;
    EXPECT_HAS(result.output, str("(step ", step, ", state "));
    for (const char* what : {"loss", "grad_norm"})
      EXPECT_EQ(column(metrics(name), what), column(metrics("alone"), what)) << what;
    EXPECT_EQ(final_hash(name), final_hash("alone"));
  }
}

// The word that a rank stopped lies in the logs; without them its exit code says it.
TEST_F(Resume, AStopIsOneThoughTheLogsAreGone) {
  write_tiny(48);
  auto process = start({"--nproc", "2", "c.json"});
  ASSERT_TRUE(reaches("run", 5)) << process->output();
  std::filesystem::remove_all("runs/run/logs");
  kill(process->pid(), SIGTERM);
  EXPECT_EQ(process->wait(20), kExitStopped) << process->output();
  EXPECT_HAS(process->output(),
             "runs/run/logs/attempt-1 is gone: it was moved or removed while the run wrote its logs there");
  EXPECT_HAS(process->output(), "trainrun: stopped on request, saved; the same command continues the run\n");
  EXPECT_LT(last_step("run"), 100);
}

// Ranks that die are started again where their run is, and nowhere else.
TEST_F(Resume, ARunThatWasMovedIsNotStartedAgainInItsPlace) {
  write_tiny(48);
  auto process = start({"--nproc", "2", "c.json", "--max-restarts=1"});
  ASSERT_TRUE(reaches("run", 25)) << process->output();
  std::filesystem::rename("runs/run", "runs/moved");
  kill(RunRecord("runs/moved").pid(1), SIGKILL);
  EXPECT_EQ(process->wait(30), kExitPeer) << process->output();
  EXPECT_HAS(process->output(), "root cause: rank 1 died: SIGKILL (9)");
  EXPECT_HAS(
      process->output(),
      "trainrun: runs/run is gone: it was moved or removed while the run went on; move it back, and the "
      "same command continues from the last checkpoint\n");
  EXPECT_EQ(process->output().find("restart 1 of 1"), std::string::npos) << process->output();
  EXPECT_FALSE(std::filesystem::exists("runs/run"));
  std::filesystem::rename("runs/moved", "runs/run");
  train({"--nproc", "2", "c.json"});
  EXPECT_EQ(last_step("run"), 100);
}

TEST_F(Resume, AFailureBeforeTheFirstCheckpointSaysSo) {
  write_tiny();
  const auto result = trainrun({"--nproc", "2", "c.json"}, {{"LOCKSTEP_FAULT", "kill:rank=1,step=5"}});
  EXPECT_EQ(result.code, kExitPeer) << result.output;
  EXPECT_HAS(result.output,
             "the same command begins again, for no checkpoint is saved yet; --max-restarts N does so by "
             "itself\n");
  train({"--nproc", "3", "c.json"});
  EXPECT_EQ(metrics("run").size(), 100u) << "each step once";
}

// A stop while nothing runs: before a restart, and before the other nodes have come.
TEST_F(Resume, AStopThatComesInAWaitIsToldAsOne) {
  scratch_.write("die.sh", std::string("#!/bin/sh\nkill -9 $$\n"));
  std::filesystem::permissions("die.sh", std::filesystem::perms::owner_all);
  for (const char* ranks : {"1", "2"}) {
    std::filesystem::remove(scratch_.path("out"));  // what the one before said
    auto process = start({"--nproc", ranks, "--max-restarts=6", "./die.sh"});
    ASSERT_TRUE(until(60, [&] {
      return process->output().find("restart 4 of 6 in 2 s") != std::string::npos;
    })) << process->output();
    kill(process->pid(), SIGTERM);
    EXPECT_EQ(process->wait(10), kExitPeer) << process->output();
    EXPECT_HAS(
        process->output(),
        "SIGTERM (15): this restart is not made; the same command continues from the last checkpoint\n");
    EXPECT_EQ(process->output().find("gave up"), std::string::npos) << process->output();
  }
  write_tiny();
  auto first =
      start({"--nproc", "1", "--nnodes", "2", "--node-rank", "0", "--master-addr", "127.0.0.1", "c.json"});
  ASSERT_TRUE(until(30, [&] { return first->output().find("waits for node 1") != std::string::npos; }))
      << first->output();
  kill(first->pid(), SIGTERM);
  EXPECT_EQ(first->wait(10), 128 + SIGTERM) << first->output();
  EXPECT_HAS(
      first->output(),
      "SIGTERM (15): nothing has begun, and the other nodes are waited for no more; the same command begins "
      "again");
}

TEST_F(Resume, RestartsByItselfWithTheRanksThatAreLeft) {
  write_tiny();
  train({"--nproc", "1", "c.json", "--name=alone"});
  auto result = trainrun({"--nproc", "3", "--max-restarts", "1", "--min-nproc", "2", "c.json"},
                         {{"LOCKSTEP_FAULT", "kill:rank=1,step=50"}});
  EXPECT_EQ(result.code, kExitOk) << result.output;
  EXPECT_HAS(result.output, "from the last checkpoint, with 2 ranks (3 before)");
  EXPECT_HAS(result.output, "mesh [dp_replicate=2]");
  EXPECT_EQ(metrics("run").size(), 100u);
  expect_same_run("alone", "run");
}

TEST_F(Resume, LostRanksComeBackWithTheSameBits) {
  write_tiny();
  train({"--nproc", "1", "c.json", "--name=alone", "--train.steps=500"});
  auto result = trainrun({"--nproc", "2:3", "--max-restarts", "1", "--grow-after", "0.2", "--restart-delay",
                          "0.1", "c.json", "--train.steps=500"},
                         {{"LOCKSTEP_FAULT", "kill:rank=1,step=50"}});
  EXPECT_EQ(result.code, kExitOk) << result.output;
  EXPECT_HAS(result.output, "restart 1 of 1 in 0.1 s, from the last checkpoint, with 2 ranks (3 before)\n");
  EXPECT_HAS(result.output,
             "trainrun: 2 of 3 ranks, and others can be had again: finishing the step and saving, to go on "
             "with 3 ranks\n");
  EXPECT_HAS(result.output, "trainrun: goes on with 3 ranks (2 before)\n");
  EXPECT_EQ(metrics("run").size(), 500u) << "each step once";
  for (const char* what : {"loss", "grad_norm"})
    EXPECT_EQ(column(metrics("run"), what), column(metrics("alone"), what)) << what;
  EXPECT_EQ(final_hash("run"), final_hash("alone"));
}

TEST_F(Resume, ALimitOfTimeSavesAndTheLogsLieElsewhere) {
  write_tiny();
  auto result = trainrun({"--nproc", "2", "c.json", "--train.steps=100000", "--timeout=3",
                          "--log-dir=elsewhere", "--tee=0:3", "--env=LOCKSTEP_LOGS=trace"});
  EXPECT_EQ(result.code, kExitStopped) << result.output;
  EXPECT_HAS(result.output, "trainrun: --timeout 3 s: finishing the step and saving\n");
  EXPECT_HAS(result.output,
             "trainrun: stopped by --timeout 3 s, saved; the same command continues the run\n");
  EXPECT_EQ(result.output.find("[rank 1]"), std::string::npos) << result.output;
  EXPECT_FALSE(steps_saved("run").empty());
  EXPECT_TRUE(std::filesystem::is_symlink("runs/run/logs"));
  EXPECT_TRUE(std::filesystem::exists("elsewhere/run/attempt-1/rank-1.log"));
  EXPECT_HAS(file_text("runs/run/logs/attempt-1/rank-1.log"), "trace");
  auto moved = trainrun({"--nproc", "2", "c.json", "--log-dir=third"});
  EXPECT_EQ(moved.code, kExitUser);
  EXPECT_HAS(moved.output,
             str("trainrun: --log-dir third: the logs of this run lie in ", scratch_.path("elsewhere/run"),
                 " already, not in ", scratch_.path("third/run"),
                 "; leave --log-dir out, or move them there and remove runs/run/logs\n"));
  for (int start = 0; start < 2; ++start)
    EXPECT_EQ(
        trainrun({"--nproc", "2", "c.json", "--train.steps=100000", "--timeout=1", "--keep-attempts=2"}).code,
        kExitStopped);
  EXPECT_FALSE(std::filesystem::exists("elsewhere/run/attempt-1")) << "the two newest are kept";
  EXPECT_TRUE(std::filesystem::exists("elsewhere/run/attempt-3"));
}

TEST_F(Resume, ARunThatIsDoneIsLeftAlone) {
  write_tiny();
  train({"--nproc", "2", "c.json", "--train.steps=20"});
  auto before = files_of("run");
  const std::string config = file_text("runs/run/config.json");
  for (const char* changed : {"--log.every=10", "--optim.lr=0.0001"}) {
    auto result = trainrun({"--nproc", "3", "c.json", "--train.steps=20", changed});
    EXPECT_EQ(result.code, kExitOk) << result.output;
    EXPECT_HAS(result.output, "nothing to do: ");
    EXPECT_EQ(files_of("run"), before);
    EXPECT_EQ(file_text("runs/run/config.json"), config) << "no step was made with " << changed;
  }
}

class Ranks : public RealRun, public ::testing::WithParamInterface<std::string> {};

TEST_P(Ranks, LossesStateAndCertificateAreEqualAsText) {
  write_tiny();
  std::vector<std::string> certificates;
  for (int nproc : {1, 2, 3, 4}) {
    std::string name = str("on-", nproc);
    train({"--nproc", str(nproc), "c.json", "--name=" + name, "--model.kind=" + GetParam(),
           "--train.steps=40", "--train.eval_every=10", "--log.hash_every=10"});
    EXPECT_EQ(metrics(name).size(), 40u);
    expect_same_run("on-1", name);
    EXPECT_EQ(column(metrics("on-1"), "state_hash"), column(metrics(name), "state_hash"));
    Json saved = manifest(name, 40);
    ASSERT_TRUE(saved.is_object());
    EXPECT_EQ("\"" + saved["state_hash"].get<std::string>() + "\"", final_hash(name));
    certificates.push_back(saved["certificate"]);
    EXPECT_EQ(certificates.back().size(), 32u);
    EXPECT_EQ(certificates.back(), certificates.front()) << nproc << " ranks";
    EXPECT_HAS(RunRecord("runs/" + name).log(0), "certificate " + certificates.front());
  }
  auto first = metrics("on-1");
  EXPECT_LT(std::stod(first.back()["loss"]), 0.8 * std::stod(first.front()["loss"]))
      << "it learns nothing: the comparison would be empty";
}

INSTANTIATE_TEST_SUITE_P(Models, Ranks, testing::Values("gpt", "llama"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace lockstep::tests
