// trainrun top, autopsy and doctor on real runs and on this machine.
#include <chrono>
#include <regex>

#include "tests/support/real_run.h"

namespace lockstep::tests {
namespace {

class WatchCommands : public RealRun {
 protected:
  // Beside a run, whose output is a file of its own.
  Result beside(std::vector<std::string> words, const std::map<std::string, std::string>& variables = {}) {
    words.insert(words.begin(), TRAINRUN);
    Process process(words, scratch_.path("beside"), variables);
    const int code = process.wait(60);
    return {code, process.output()};
  }
  std::string said(std::vector<std::string> words) {
    const Result result = beside(std::move(words));
    EXPECT_EQ(result.code, kExitOk) << result.output;
    return result.output;
  }
};

TEST_F(WatchCommands, AutopsyOfARankThatDied) {
  write_tiny();
  const Result run =
      trainrun({"--nproc", "3", "--train.device=cpu", "c.json"}, {{"LOCKSTEP_FAULT", "kill:rank=2,step=4"}});
  ASSERT_EQ(run.code, kExitPeer) << run.output;
  const std::string told = said({"autopsy", "run"});
  EXPECT_HAS(told, "runs/run, attempt 1 of 1, 3 ranks: failed\nroot cause: rank 2 died: SIGKILL (9)");
  EXPECT_HAS(told, "\nrank  step  phase");
  EXPECT_TRUE(std::regex_search(told, std::regex("\n2     4     \\S+ +-\\d+\\.\\d [mu]?s ")) ||
              std::regex_search(told, std::regex("\n2     4     \\S+ +the last")))
      << told;
  EXPECT_TRUE(std::regex_search(
      told,
      std::regex(
          "open: \\w+ \"[^\"]*\" \\([^)]*\\), #\\d+ of group world: ranks? [01, ]+ entered it, the first "
          "\\d+\\.\\d [mu]?s before the last word; ranks? (\\d, )*2 did not come\n")))
      << told;
  EXPECT_HAS(told, "first divergence: none in the last ");
  EXPECT_HAS(told, "records: trainrun flight runs/run/logs/attempt-1; logs: ");
  EXPECT_EQ(said({"autopsy", "runs/run/", "--attempt", "1"}), told);
  for (const std::string& words : {told, said({"top", "run"})})
    EXPECT_FALSE(std::regex_search(words, std::regex("[ -]0\\.0 [mu]?s"))) << "a time that says nothing:\n"
                                                                           << words;
  const auto refused = [&](std::vector<std::string> words, const std::string& words_of) {
    const Result result = beside(std::move(words));
    EXPECT_EQ(result.code, kExitUser);
    EXPECT_EQ(result.output, "trainrun: " + words_of + "\n");
  };
  refused({"autopsy", "run", "--attempt", "5"}, "--attempt is 5, and runs/run has attempt 1 alone");
  refused({"autopsy", "rum"}, "no run rum that has logs; did you mean runs/run?");
  refused({"top", "elsewhere/that"},
          "no run elsewhere/that that has logs; name it as runs/NAME, where it was started");
  std::filesystem::create_directories("runs/none/logs");
  refused({"autopsy", "none"}, "runs/none/logs holds no attempt; no rank of the run was started");
}

TEST_F(WatchCommands, TopShowsARunThatRuns) {
  write_tiny();
  auto process = start({"--nproc", "2", "--train.device=cpu", "c.json", "--train.steps=1000000"});
  EXPECT_TRUE(until(60, [&] { return last_step("run") > 10; })) << process->output();
  const std::string live = said({"top", "run"});
  EXPECT_TRUE(std::regex_search(
      live,
      std::regex("^runs/run  attempt 1, 2 ranks, running; step \\d+ of 1000000, \\d+:\\d\\d:\\d\\d left\n")))
      << live;
  for (const char* part : {"\nloss ", "   grad_norm ", " tokens/s   ", " ms a step   exposed dp_replicate ",
                           "\nrank  pid ", "\nslowest: rank ", "\nlate: nobody\n"})
    EXPECT_HAS(live, part);
  EXPECT_TRUE(std::regex_search(live, std::regex("\n1 +\\d+ +runs +\\d+ .* MiB "))) << live;
  EXPECT_EQ(live.find('\x1b'), std::string::npos) << "no terminal";
  EXPECT_HAS(said({"autopsy", "run"}), "2 ranks: it runs; trainrun top shows it live\n");
  kill(process->pid(), SIGTERM);
  EXPECT_EQ(process->wait(60), kExitStopped) << process->output();
  const std::string after = said({"top", "--once", "runs/run"});
  EXPECT_HAS(after, "2 ranks, not running; step ");
  EXPECT_EQ(after.find("late: "), std::string::npos) << after;
  EXPECT_HAS(said({"autopsy", "run"}), "2 ranks: no failure is recorded\n");
}

// A rank that dies with restarts left: its trainrun waits, and top says so.
TEST_F(WatchCommands, TopBetweenAttempts) {
  write_tiny();
  auto process =
      start({"--nproc", "2", "--train.device=cpu", "--max-restarts", "1", "--restart-delay", "20", "c.json"},
            {{"LOCKSTEP_FAULT", "kill:rank=1,step=30"}});
  EXPECT_TRUE(until(60, [&] {
    return process->output().find("rank 1 died: SIGKILL") != std::string::npos &&
           said({"top", "run"}).find("between attempts") != std::string::npos;
  })) << process->output();
  EXPECT_HAS(said({"top", "run"}), "attempt 1, 2 ranks, held by trainrun, between attempts; step ");
  kill(process->pid(), SIGTERM);
  EXPECT_NE(process->wait(30), -1) << process->output();
  EXPECT_HAS(said({"top", "run"}), "attempt 1, 2 ranks, failed: see trainrun autopsy; step ");
  EXPECT_EQ(said({"autopsy", "run"}).find("attempts "), std::string::npos) << "there is one";
  train({"--nproc", "2", "--train.device=cpu", "c.json"});
  const std::string second = said({"autopsy", "run"});
  EXPECT_HAS(second,
             "runs/run, attempt 2 of 2, 2 ranks: no failure is recorded\n"
             "attempts 1 to 2 are there: trainrun autopsy runs/run --attempt K shows another one\n");
  EXPECT_HAS(said({"autopsy", "run", "--attempt", "1"}), "root cause: rank 1 died: SIGKILL");
}

// A program whose files lie elsewhere than its logs: whoever names one of the folders is shown both.
TEST_F(WatchCommands, TheTwoFoldersOfAProgramNameEachOther) {
  const auto run = [&](const std::string& name, const std::string& folder, const std::string& steps) {
    std::vector<std::string> words{"--nproc", "2", LOOP_PROGRAM, folder, steps, "--train.device=cpu"};
    if (!name.empty()) words.insert(words.begin(), "--name=" + name);
    train(words);
  };
  run("", "runs/a", "10");
  const std::string seen = said({"top", "runs/a"});
  EXPECT_HAS(seen, "runs/loop_program, files in runs/a  attempt 1, 2 ranks, not running; step 10\nloss ");
  EXPECT_EQ(said({"top", "loop_program"}), seen);
  const std::string told = said({"autopsy", "a"});
  EXPECT_HAS(told, "runs/loop_program, attempt 1 of 1, 2 ranks: no failure is recorded\n");
  EXPECT_HAS(told, "/rank-R.log; checkpoints and metrics: runs/a\n");
  EXPECT_EQ(said({"autopsy", "runs/loop_program/"}), told);
  EXPECT_HAS(said({"ckpt", "ls", "loop_program"}), "\nruns/a/ckpt/step-10 ");
  EXPECT_EQ(said({"ckpt", "ls", "runs/loop_program"}), said({"ckpt", "ls", "runs/a"}));
  const Result pruned = beside({"ckpt", "prune", "runs/loop_program", "--keep", "1"});
  EXPECT_EQ(pruned.code, kExitUser);
  EXPECT_EQ(
      pruned.output,
      "trainrun: prune: runs/loop_program/run.at says that the program's checkpoints are in runs/a/ckpt; "
      "name that folder itself, since nothing is removed on a file's word\n");
  // Another run of the same program: each has its attempt.
  run("", "runs/b", "12");
  EXPECT_HAS(said({"autopsy", "runs/a"}), "runs/loop_program, attempt 1 of 2, ");
  EXPECT_HAS(said({"autopsy", "runs/b"}), "runs/loop_program, attempt 2 of 2, ");
  EXPECT_HAS(said({"ckpt", "ls", "loop_program"}), "\nruns/b/ckpt/step-12 ");
  // In one folder they need no pointer.
  run("a", "runs/a", "14");
  for (const char* pointer : {"runs/a/run.at", "runs/a/logs.at"})
    EXPECT_FALSE(std::filesystem::exists(pointer));
  EXPECT_HAS(said({"top", "a"}), "runs/a  attempt 1, 2 ranks, not running; step 14\n");
  // A loop of one's own that saves.
  train({"--name=loop", LOOP_PROGRAM, "x", "1", "resume=runs/c", "save", "--train.device=cpu"});
  EXPECT_HAS(said({"ckpt", "ls", "loop"}), "\nruns/c/ckpt/step-1 ");
  EXPECT_HAS(said({"autopsy", "c"}), "; checkpoints and metrics: runs/c\n");
}

TEST_F(WatchCommands, DoctorLooksAtThisMachine) {
  const auto begin = std::chrono::steady_clock::now();
  const Result result = beside({"doctor"}, {{"LOCKSTEP_CACHE", KERNEL_CACHE}});
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  EXPECT_EQ(result.code, kExitOk) << result.output;
  EXPECT_LT(seconds, 25 * kSlowness);
  for (const char* check :
       {"cores", "load", "memory", "memory speed", "/dev/shm", "open files", "processes", "locked memory",
        "runs/ (here)", "disk speed", "kernel cache", "compiler", "MPI", "link of 2 ranks"})
    EXPECT_TRUE(std::regex_search(
        result.output,
        std::regex(str("\n(ok  |warn)  ", std::regex_replace(std::string(check), std::regex("[()]"), "\\$&"),
                       "  "))))
        << check << "\n"
        << result.output;
  EXPECT_HAS(result.output, "GB/s read and written by ");
  EXPECT_HAS(result.output, " MB/s written and synced, ");
  EXPECT_HAS(result.output, " us for a sum of 8 bytes, ");
  EXPECT_HAS(result.output, "\nno check fails");
  EXPECT_TRUE(std::filesystem::is_empty(scratch_.path("")) || !std::filesystem::exists("runs"))
      << "it leaves nothing";
}

TEST_F(WatchCommands, DoctorSaysWhatToMend) {
  scratch_.write("ask.sh", str("cd /proc || exit 9\nulimit -n 200 && exec ", TRAINRUN, " doctor\n"));
  Process process({"/bin/sh", "ask.sh"}, scratch_.path("beside"),
                  {{"LOCKSTEP_CXX", "/no/such/c++"}, {"LOCKSTEP_MEMORY", "much"}});
  EXPECT_EQ(process.wait(60), 1) << process.output();
  const std::string told = process.output();
  EXPECT_HAS(told, "FAIL  open files        200; trainrun holds several for each rank");
  EXPECT_HAS(told, "FAIL  runs/ (here)      a file in /proc/. cannot be written: ");
  EXPECT_HAS(told, "; start runs in a folder that you may write and that has space\n");
  EXPECT_HAS(told, "FAIL  compiler          the compiler of kernels, \"/no/such/c++\", does not run: ");
  EXPECT_HAS(told, "; set LOCKSTEP_MEMORY to an amount, or unset it\n");
  EXPECT_HAS(told, "FAIL  ranks             two ranks could not be started: trainrun: LOCKSTEP_MEMORY: ");
  EXPECT_HAS(told, "; two ranks run here once that is mended\n");
  EXPECT_HAS(told, " checks fail");
}

// Its two ranks go with it.
TEST_F(WatchCommands, DoctorThatIsEndedLeavesNothing) {
  const std::string own = scratch_.path("tmp");
  std::filesystem::create_directory(own);
  const auto ranks = [&] {
    int found = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc"))
      if (const std::string words = file_text(entry.path().string() + "/cmdline");
          words.find("doctor-rank") != std::string::npos && words.find(own) != std::string::npos)
        ++found;
    return found;
  };
  for (const int signal : {SIGTERM, SIGINT}) {
    Process process({TRAINRUN, "doctor"}, scratch_.path("beside"),
                    {{"LOCKSTEP_CACHE", KERNEL_CACHE}, {"TMPDIR", own}});
    ASSERT_TRUE(until(60, [&] { return ranks() > 0 || process.wait(0) >= 0; })) << process.output();
    kill(process.pid(), signal);
    EXPECT_EQ(process.wait(10), 128 + signal) << process.output();
    EXPECT_TRUE(until(1, [&] { return ranks() == 0; }));
    EXPECT_TRUE(std::filesystem::is_empty(own)) << std::filesystem::directory_iterator(own)->path();
  }
}

TEST_F(WatchCommands, DoctorSaysThatThereIsNoRoom) {
  scratch_.write("ask.sh", str("ulimit -f 100 && exec ", TRAINRUN, " doctor\n"));
  Process process({"/bin/bash", "ask.sh"}, scratch_.path("beside"),
                  {{"LOCKSTEP_CACHE", KERNEL_CACHE}, {"TMPDIR", scratch_.path("")}});
  EXPECT_EQ(process.wait(60), 1) << process.output();
  EXPECT_HAS(process.output(),
             "FAIL  temporary files   cannot write in " + scratch_.path("lockstep-scratch-doctor-"));
  EXPECT_HAS(process.output(), ": File too large; make room in ");
  EXPECT_HAS(process.output(), ", or set TMPDIR to a folder with space\n");
  EXPECT_EQ(process.output().find("Open MPI ("), std::string::npos) << process.output();
}

#ifdef FAKE_NVML
// NVML's words, from a library that stands in its place.
TEST_F(WatchCommands, DoctorTellsOfGpusThatAreNotWell) {
  const Result result =
      beside({"doctor"}, {{"LOCKSTEP_CACHE", KERNEL_CACHE}, {"LD_LIBRARY_PATH", FAKE_NVML}});
  EXPECT_EQ(result.code, 1) << result.output;
  EXPECT_HAS(result.output, "ok    GPU 0 clock       1980 MHz of 1980, 34 C\n");
  EXPECT_HAS(result.output,
             "ok    GPU 0 errors      0 uncorrected errors of its memory since it was started\n");
  EXPECT_HAS(result.output, "ok    GPU 0 memory      79.00 GiB free of 80.00 GiB\n");
  EXPECT_HAS(result.output,
             "FAIL  GPU 1 clock       900 MHz of 1980, 91 C, slowed by its power limit, heat, as the "
             "hardware sees it; "
             "all ranks wait for it: ");
  EXPECT_HAS(result.output,
             "FAIL  GPU 1 errors      3 uncorrected errors of its memory since it was started; its memory is "
             "wrong at "
             "times: reset it");
  EXPECT_HAS(result.output,
             "warn  GPU 1 memory      40.00 GiB free of 80.00 GiB; another program holds some of it");
  EXPECT_HAS(result.output, "FAIL  GPU 2             NVML has lost it (code 15); dmesg names the Xid");
}
#endif

}  // namespace
}  // namespace lockstep::tests
