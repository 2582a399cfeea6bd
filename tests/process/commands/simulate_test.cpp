// trainrun --simulate N: the bits, the run folder, the exit codes and the messages of N ranks that are
// processes.
#include <regex>

#include "tests/support/real_run.h"

namespace lockstep::tests {
namespace {

class Simulate : public RealRun {
 protected:
  // Each line of metrics.jsonl as its text, without the values that are times.
  static std::vector<std::string> lines_without_times(const std::string& name) {
    static const std::regex times(R"re("([a-z_]+_ms(_[a-z]+)?|tokens_per_s|slowest_rank)": [^,}]+, )re");
    std::vector<std::string> out;
    std::ifstream file("runs/" + name + "/metrics.jsonl");
    for (std::string line; std::getline(file, line);) out.push_back(std::regex_replace(line, times, ""));
    return out;
  }
  // What the user saw, without rates, seconds, names and attempts.
  static std::string said_without_times(std::string output, const std::string& name) {
    output = std::regex_replace(output, std::regex("(  [0-9.]+[kM]? tok/s)?(  ETA [0-9:]+)?"), "");
    output = std::regex_replace(output, std::regex("compiled in [0-9.]+ s"), "compiled");
    output = std::regex_replace(output, std::regex("predicted [^\n]*"), "predicted");
    return std::regex_replace(output, std::regex("runs/" + name + "/"), "runs/NAME/");
  }
  static std::vector<std::string> files_below(const std::string& folder) {
    std::vector<std::string> out;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
      out.push_back(std::filesystem::relative(entry.path(), folder));
    std::sort(out.begin(), out.end());
    return out;
  }
  void refused(std::vector<std::string> words, const std::string& part) {
    auto result = trainrun(words);
    EXPECT_EQ(result.code, kExitUser) << result.output;
    EXPECT_HAS(result.output, part);
    EXPECT_FALSE(std::filesystem::exists("runs")) << join(words, " ");
  }
  static bool reaches(const std::string& name, int64_t step) {
    return until(60, [&] { return last_step(name) >= step; });
  }
};

TEST_F(Simulate, RanksWithoutAMicroBatchAreTold) {
  write_tiny();
  const auto idle = trainrun({"--simulate", "8", "c.json", "--train.steps=1"});
  ASSERT_EQ(idle.code, kExitOk) << idle.output;
  EXPECT_EQ(occurrences(idle.output, " idle "), 1) << idle.output;
  EXPECT_HAS(
      idle.output,
      "2 of 8 ranks are idle in forward and backward: a step has 6 micro-batches, for 6 ranks at most; "
      "start 6, or make more of them: a smaller batch.micro, or a larger batch.global\n");
}

struct MeshWords {
  int ranks;
  const char *shape, *dims;
};

TEST_F(Simulate, IsTheRunOfAsManyProcesses) {
  write_tiny();
  const std::vector<std::string> more = {"--train.steps=40", "--train.eval_every=10", "--log.hash_every=10"};
  auto with = [&](std::vector<std::string> words) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  auto processes = trainrun(with({"--nproc", "3", "c.json", "--name=processes"}));
  ASSERT_EQ(processes.code, kExitOk) << processes.output;
  auto threads = trainrun(with({"--simulate", "3", "c.json", "--name=threads"}));
  ASSERT_EQ(threads.code, kExitOk) << threads.output;
  EXPECT_EQ(lines_without_times("processes").size(), 40u);
  EXPECT_EQ(lines_without_times("threads"), lines_without_times("processes"));
  EXPECT_EQ(final_hash("threads"), final_hash("processes"));
  EXPECT_EQ(manifest("threads", 40)["certificate"], manifest("processes", 40)["certificate"]);
  EXPECT_EQ(manifest("threads", 40)["mesh"], manifest("processes", 40)["mesh"]);
  EXPECT_EQ(said_without_times(threads.output, "threads"), said_without_times(processes.output, "processes"));
  for (int rank : {1, 2})
    EXPECT_EQ(RunRecord("runs/threads").log(rank), RunRecord("runs/processes").log(rank))
        << "log of rank " << rank;
  EXPECT_EQ(said_without_times(RunRecord("runs/threads").log(0), "threads"),
            said_without_times(RunRecord("runs/processes").log(0), "processes"));
  // The folder: missing are MPI's own log, and the name of the run's memory, which ranks that are threads do
  // not outlive.
  auto mine = files_below("runs/threads"), theirs = files_below("runs/processes");
  for (const char* file : {"logs/attempt-1/launcher.log", "memory-id"}) std::erase(theirs, file);
  EXPECT_EQ(mine, theirs);
}

TEST_F(Simulate, OnEveryMeshOfDataRanks) {
  write_tiny();
  train({"--nproc", "1", "c.json", "--name=alone", "--train.steps=12", "--checkpoint.every=6"});
  for (const MeshWords& mesh :
       {MeshWords{1, "[-1]", "[dp_replicate]"}, MeshWords{2, "[2]", "[dp_replicate]"},
        MeshWords{4, "[-1,1]", "[dp_replicate,tp]"}, MeshWords{3, "[1,3]", "[dp_shard,dp_replicate]"},
        MeshWords{5, "[5]", "[dp_shard]"}, MeshWords{6, "[2,3]", "[dp_replicate,dp_shard]"}}) {
    std::string name = str("on-", mesh.ranks);
    std::string dims = std::regex_replace(std::string(mesh.dims), std::regex("([a-z_]+)"), "\"$1\"");
    auto result =
        trainrun({"--simulate", str(mesh.ranks), "c.json", "--name=" + name, "--train.steps=12",
                  "--checkpoint.every=6", str("--mesh.shape=", mesh.shape), "--mesh.dim_names=" + dims});
    ASSERT_EQ(result.code, kExitOk) << result.output;
    EXPECT_EQ(lines_without_times(name), lines_without_times("alone")) << mesh.shape << " " << mesh.dims;
  }
}

TEST_F(Simulate, SigtermSavesAndRealRanksGoOn) {
  write_tiny(48);
  train({"--nproc", "1", "c.json", "--name=alone"});
  auto process = start({"--simulate", "3", "c.json"});
  ASSERT_TRUE(reaches("run", 27)) << process->output();
  EXPECT_EQ(RunRecord("runs/run").pids(3), std::vector<int>(3, process->pid()))
      << "all ranks are this process";
  kill(process->pid(), SIGTERM);
  ASSERT_EQ(process->wait(30), kExitStopped) << process->output();
  int64_t step = last_step("run");
  ASSERT_LT(step, 100) << "the run was over before it was stopped";
  EXPECT_HAS(process->output(),
             "trainrun: SIGTERM (15): finishing the step and saving; a second signal kills at once\n");
  EXPECT_HAS(process->output(), str("stopped on request after step ", step, "; saved in "));
  EXPECT_HAS(process->output(), "trainrun: stopped on request, saved; the same command continues the run\n");
  EXPECT_EQ(file_text("runs/run/ckpt/latest"), str("step-", step, "\n"));
  EXPECT_TRUE(std::filesystem::exists("runs/run/logs/attempt-1/stopped-2"));
  auto result = trainrun({"--nproc", "2", "c.json"});
  ASSERT_EQ(result.code, kExitOk) << result.output;
  EXPECT_HAS(result.output, str("(step ", step, ", state "));
  for (const char* what : {"loss", "grad_norm", "certificate"})
    EXPECT_EQ(column(metrics("run"), what), column(metrics("alone"), what)) << what;
  EXPECT_EQ(final_hash("run"), final_hash("alone"));
}

TEST_F(Simulate, AKilledRunGoesOnAndSoDoesOneOfRealRanks) {
  write_tiny();
  train({"--nproc", "1", "c.json", "--name=alone"});
  auto result = trainrun({"--simulate", "3", "c.json", "--checkpoint.async=false"},
                         {{"LOCKSTEP_FAULT", "kill:rank=1,step=30"}});
  EXPECT_EQ(result.code, 128 + SIGKILL) << result.output;
  result = trainrun({"--nproc", "3", "c.json", "--checkpoint.async=false"},
                    {{"LOCKSTEP_FAULT", "kill:rank=2,step=70"}});
  EXPECT_EQ(result.code, kExitPeer) << result.output;
  EXPECT_HAS(result.output,
             str("resumed from ", scratch_.path("runs/run/ckpt/step-20"), " (step 20, state "));
  result = trainrun({"--simulate", "2", "c.json"});
  ASSERT_EQ(result.code, kExitOk) << result.output;
  EXPECT_HAS(result.output,
             str("resumed from ", scratch_.path("runs/run/ckpt/step-60"), " (step 60, state "));
  EXPECT_EQ(result.output.find("bits may change"), std::string::npos) << result.output;
  EXPECT_EQ(lines_without_times("run"), lines_without_times("alone"));
}

TEST_F(Simulate, ASecondSignalAndTheEndOfTheGraceEndTheProcess) {
  write_tiny(9600);
  const std::vector<std::string> words = {"--simulate", "2", "c.json", "--checkpoint.every=0"};
  auto process = start(words);
  ASSERT_TRUE(reaches("run", 1)) << process->output();
  kill(process->pid(), SIGINT);
  ASSERT_TRUE(until(20, [&] {
    return process->output().find("SIGINT (2): finishing the step") != std::string::npos;
  })) << process->output();
  kill(process->pid(), SIGTERM);
  EXPECT_EQ(process->wait(20), 128 + SIGINT) << process->output();
  EXPECT_HAS(process->output(), "trainrun: ending the process: second signal\n");
  EXPECT_HAS(process->output(),
             "trainrun: root cause: killed after SIGINT (2) before the run had saved and ended\n");
  process = start({"--simulate", "2", "--grace", "0", "c.json", "--checkpoint.every=0"});
  // The words of the first process stand in the file until the second has opened it.
  ASSERT_TRUE(until(60, [&] {
    const std::string said = process->output();
    return said.find("starting at step 1") != std::string::npos &&
           said.find("second signal\n") == std::string::npos;
  })) << process->output();
  kill(process->pid(), SIGTERM);
  EXPECT_EQ(process->wait(20), 128 + SIGTERM) << process->output();
  EXPECT_HAS(process->output(), "trainrun: ending the process: not done 0 s after the first signal\n");
}

TEST_F(Simulate, TheFirstFailureIsTheRootCause) {
  write_tiny();
  auto result = trainrun({"--simulate", "3", "c.json"}, {{"LOCKSTEP_FAULT", "throw:rank=1,step=7"}});
  EXPECT_EQ(result.code, kExitInternal) << result.output;
  EXPECT_HAS(
      result.output,
      "trainrun: root cause: rank 1: InternalError at step 7: fault injected by LOCKSTEP_FAULT at step 7\n");
  EXPECT_HAS(result.output, "trainrun: logs: runs/run/logs/attempt-1\n");
  EXPECT_HAS(RunRecord("runs/run").log(1), "InternalError: fault injected");
  EXPECT_HAS(RunRecord("runs/run").log(2), "PeerError: ");
  EXPECT_HAS(file_text("runs/run/logs/attempt-1/error-1.json") +
                 file_text("runs/run/logs/attempt-1/error-2.json") +
                 file_text("runs/run/logs/attempt-1/error-3.json"),
             "fault injected");
  // What all ranks find is told once, and without a rank, as processes tell it.
  auto words = std::vector<std::string>{"c.json", "--data.paths=[\"nowhere.bin\"]"};
  auto threads = trainrun({"--simulate", "3", words[0], words[1], "--name=a"}),
       processes = trainrun({"--nproc", "3", words[0], words[1], "--name=b"});
  EXPECT_EQ(threads.code, kExitUser);
  EXPECT_EQ(occurrences(threads.output, "nowhere.bin does not exist"), 1) << threads.output;
  EXPECT_EQ(std::regex_replace(threads.output, std::regex("runs/a"), "runs/b"), processes.output);
}

TEST_F(Simulate, WrongInputIsRefusedBeforeAnythingIsWritten) {
  write_tiny();
  refused({"--simulate", "3", "--nproc", "2", "c.json"},
          "trainrun: --simulate 3 and --nproc 2 are both given; use --nproc N for ranks that are processes, "
          "--simulate N for ranks that are "
          "threads of this one\n");
  refused({"--simulate", "0", "c.json"},
          "trainrun: --simulate is \"0\"; give a number of ranks, 1 or more, or auto (one per core)\n");
  for (const std::string& device :
       {std::string("cuda"), std::string("cuda:0"), "plugin:" + scratch_.path("libmine.so")})
    refused({"--simulate", "3", "c.json", str("--train.device=", device)},
            str("trainrun: --simulate 3 runs 3 ranks in one process, and one process drives one device, but "
                "train.device is \"",
                device, "\"; use --train.device=cpu, --simulate 1, or --nproc 3\n"));
  refused({"--simulate", "3", "c.json", "--mesh.shape=[2]"},
          "mesh.shape [2] multiplies out to 2, but there are 3 ranks");
  refused({"--simulate", "3", "--max-restarts", "2", "c.json"},
          "the ranks of --simulate are threads of one; leave them out, or use --nproc");
  refused({"--simulate", "3", "--min-nproc", "2", "c.json"},
          "the ranks of --simulate are threads of one; leave them out, or use --nproc");
  refused({"--simulate", "3", TRAINRUN}, "is a program, each of whose ranks is a process: use --nproc 3\n");
  auto dry = trainrun({"--simulate", "3", "--dry-run", "c.json"});
  EXPECT_EQ(dry.code, kExitOk);
  EXPECT_EQ(dry.output,
            "--simulate 3: no command; the ranks are threads of this process, and write runs/run\n");
  EXPECT_FALSE(std::filesystem::exists("runs"));
}

}  // namespace
}  // namespace lockstep::tests
