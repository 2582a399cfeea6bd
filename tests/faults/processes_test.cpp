// Faults of processes: ranks, trainrun, signals, and what is left of them.
#include "tests/faults/fault_run.h"

namespace lockstep::tests {
namespace {

using Words = std::vector<std::string>;
constexpr int64_t kSteps = 160;

class ProcessFaults : public FaultRun {
 protected:
  void SetUp() override {
    FaultRun::SetUp();
    write_tiny();
  }
  Words words(int nproc, Words more = {}) const {
    Words out = {"--nproc", str(nproc), "--train.device=cpu", str("--train.steps=", kSteps), "c.json"};
    out.insert(out.end(), more.begin(), more.end());
    return out;
  }
  // The unfaulted run, whose bits every other must have.
  void whole() { train(words(1, {"--name=whole"})); }
  void continues_with_the_same_bits(int nproc = 2) {
    train(words(nproc));
    EXPECT_EQ(last_step("run"), kSteps);
    EXPECT_EQ(final_hash("run"), final_hash("whole"));
  }
  // A run that is between steps 25 and its end, held there by a rank that is slow to stop being observed.
  std::unique_ptr<Process> running(int nproc, Words more = {}) {
    std::filesystem::remove_all("runs/run");
    auto process = start(words(nproc, std::move(more)));
    EXPECT_TRUE(until(60, [&] { return last_step("run") >= 25; })) << process->output();
    return process;
  }
  static std::vector<int> ranks(int nproc, int attempt = 1) {
    return RunRecord("runs/run").pids(nproc, attempt);
  }
  static std::vector<std::string> shared_folders() {
    std::vector<std::string> out;
    for (const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
      if (entry.path().filename().string().rfind(str("lockstep.", geteuid(), "."), 0) == 0)
        out.push_back(entry.path());
    return out;
  }
};

double seconds_since(std::chrono::steady_clock::time_point then) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - then).count();
}

TEST_F(ProcessFaults, Row01OneRankKilled) {
  whole();
  for (int nproc : {2, 4}) {
    auto process = running(nproc);
    auto pids = ranks(nproc);
    const auto then = std::chrono::steady_clock::now();
    kill(pids.back(), SIGKILL);
    EXPECT_EQ(process->wait(10), kExitPeer) << process->output();
    EXPECT_LT(seconds_since(then), 2.0 * kSlowness);
    EXPECT_TRUE(all_gone(pids, 0));
    EXPECT_HAS(process->output(),
               str("root cause: rank ", nproc - 1,
                   " died: SIGKILL (9), perhaps out of memory, or killed by the administrator; step "));
    continues_with_the_same_bits(3);
  }
  row({.fault = "kill -9 of rank 1 of 2, of rank 3 of 4",
       .seen = "root cause: rank 3 died: SIGKILL (9), perhaps out of memory, or killed by the administrator; "
               "step 27",
       .code = "75",
       .detected = "0.02 s",
       .recovered = "same command, on any number of ranks; by itself with --max-restarts",
       .lost = "< 2 x checkpoint.every",
       .same_bits = "yes, resumed on 3 ranks"});
}

TEST_F(ProcessFaults, Row02RankZeroKilledAndEverythingKilled) {
  whole();
  auto process = running(2);
  auto pids = ranks(2);
  kill(pids[0], SIGKILL);
  EXPECT_EQ(process->wait(10), kExitPeer) << process->output();
  EXPECT_HAS(process->output(), "root cause: rank 0 died: SIGKILL (9)");
  continues_with_the_same_bits();

  process = running(2);
  pids = ranks(2);
  const std::string mine = str("/dev/shm/lockstep.", geteuid(), ".", process->pid(), ".");
  auto left = [&] {
    for (const auto& folder : shared_folders())
      if (folder.rfind(mine, 0) == 0) return true;
    return false;
  };
  EXPECT_TRUE(left()) << "while they live: what is dead any other run removes";
  kill(process->pid(), SIGKILL);
  for (int pid : pids) kill(pid, SIGKILL);
  EXPECT_EQ(process->wait(5), 128 + SIGKILL);
  EXPECT_TRUE(all_gone(pids, 2));
  continues_with_the_same_bits();
  EXPECT_FALSE(left()) << "the next run removes what killed ones left";
  row({.fault = "kill -9 of rank 0; of trainrun and all ranks together (there is no launcher below)",
       .seen = "root cause: rank 0 died: SIGKILL (9); nothing: trainrun is dead",
       .code = "75; -9",
       .detected = "0.02 s",
       .recovered = "same command, which removes the shared memory that was left",
       .lost = "< 2 x checkpoint.every",
       .same_bits = "yes"});
}

TEST_F(ProcessFaults, Row03TrainrunKilled) {
  whole();
  for (int nproc : {4, 1}) {
    auto process = running(nproc);
    auto pids = ranks(nproc);
    kill(process->pid(), SIGKILL);
    EXPECT_EQ(process->wait(5), 128 + SIGKILL);
    EXPECT_TRUE(all_gone(pids, 1));
    continues_with_the_same_bits(nproc);
  }
  row({.fault = "kill -9 of trainrun, 4 ranks and 1",
       .seen = "nothing: trainrun is dead",
       .code = "-9",
       .detected = "ranks gone in 0.01 s",
       .recovered = "same command, at once",
       .lost = "< 2 x checkpoint.every",
       .same_bits = "yes"});
}

TEST_F(ProcessFaults, Row04Preemption) {
  whole();
  // To trainrun; to all processes at once, as systemd and schedulers do; to one rank alone.
  for (int part : {0, 1, 2}) {
    auto process = running(4);
    auto pids = ranks(4);
    if (part == 1)
      for (int pid : pids) kill(pid, SIGTERM);
    kill(part == 2 ? pids[2] : process->pid(), SIGTERM);
    EXPECT_EQ(process->wait(10), kExitStopped) << part << process->output();
    EXPECT_EQ(manifest("run", last_step("run"))["state_hash"], Json::parse(final_hash("run")));
    EXPECT_HAS(process->output(), "stopped on request, saved; the same command continues the run");
    continues_with_the_same_bits(4);
  }
  // While it starts, to all processes: from when it listens itself.
  for (int wait_ms : {0, 10, 40, 100, 300}) {
    std::filesystem::remove_all("runs/run");
    auto process = start(words(2));
    ASSERT_TRUE(until(20, [] { return std::filesystem::exists("runs/run/logs/attempt-1"); }));
    std::this_thread::sleep_for(std::chrono::milliseconds(wait_ms));
    std::ifstream children(str("/proc/", process->pid(), "/task/", process->pid(), "/children"));
    for (int pid; children >> pid;) kill(pid, SIGTERM);
    kill(process->pid(), SIGTERM);
    EXPECT_EQ(process->wait(20), kExitStopped) << wait_ms << " ms: " << process->output();
  }
  // Twice, with a rank that does not answer.
  std::filesystem::remove_all("runs/run");
  auto process = start(words(2), {{"LOCKSTEP_FAULT", "hang:rank=1,step=50"}});
  ASSERT_TRUE(until(30, [&] { return last_step("run") >= 49; }));
  kill(process->pid(), SIGTERM);
  ASSERT_TRUE(until(5, [&] { return process->output().find("finishing the step") != std::string::npos; }));
  kill(process->pid(), SIGTERM);
  EXPECT_EQ(process->wait(5), 128 + SIGTERM) << process->output();
  continues_with_the_same_bits();
  row({.fault = "SIGTERM to trainrun; to trainrun and all ranks at once; to one rank alone; during the "
                "start; twice",
       .seen = "SIGTERM (15): finishing the step and saving; a second signal kills at once",
       .code = "80; 80; 80; 80; 143",
       .detected = "the step's end",
       .recovered = "same command",
       .lost = "0; 0; 0; 0; < 2 x checkpoint.every",
       .same_bits = "yes"});
}

TEST_F(ProcessFaults, Row05InterruptAndHangup) {
  whole();
  for (int signal : {SIGINT, SIGHUP}) {
    auto process = running(2);
    kill(process->pid(), signal);
    EXPECT_EQ(process->wait(10), kExitStopped) << process->output();
    continues_with_the_same_bits();
  }
  auto process = running(2);
  kill(-process->pid(), SIGINT);  // as a terminal does, to the foreground group
  EXPECT_EQ(process->wait(10), kExitStopped) << process->output();
  continues_with_the_same_bits();
  std::filesystem::remove_all("runs/run");
  process = start(words(2), {{"LOCKSTEP_FAULT", "hang:rank=1,step=50"}});
  ASSERT_TRUE(until(30, [&] { return last_step("run") >= 49; }));
  kill(process->pid(), SIGINT);
  ASSERT_TRUE(until(5, [&] { return process->output().find("finishing the step") != std::string::npos; }));
  kill(process->pid(), SIGINT);
  EXPECT_EQ(process->wait(5), 128 + SIGINT) << process->output();
  continues_with_the_same_bits();
  row({.fault = "SIGINT; SIGHUP; SIGINT from the terminal; SIGINT twice",
       .seen = "SIGINT (2): finishing the step and saving; a second signal kills at once",
       .code = "80; 80; 80; 130",
       .detected = "the step's end",
       .recovered = "same command",
       .lost = "0; 0; 0; < 2 x checkpoint.every",
       .same_bits = "yes"});
}

TEST_F(ProcessFaults, Row07ACrash) {
  whole();
  for (int signal : {SIGSEGV, SIGABRT, SIGBUS}) {
    auto process = running(2);
    auto pids = ranks(2);
    kill(pids[1], signal);
    EXPECT_EQ(process->wait(10), kExitInternal) << process->output();
    EXPECT_HAS(process->output(),
               str("root cause: rank 1 died: SIG", sigabbrev_np(signal), " (", signal, ")"));
  }
  continues_with_the_same_bits();
  auto process = running(4, {"--max-restarts", "2", "--restart-delay", "0.1"});
  auto pids = ranks(4);
  kill(pids[1], SIGSEGV);
  kill(pids[2], SIGSEGV);
  EXPECT_EQ(process->wait(30), kExitOk) << process->output();
  EXPECT_HAS(process->output(), "restart 1 of 2 in 0.1 s, from the last checkpoint, with 4 ranks");
  EXPECT_EQ(final_hash("run"), final_hash("whole"));
  row({.fault = "SIGSEGV, SIGABRT, SIGBUS to a rank; to two ranks at once with --max-restarts 2",
       .seen = "root cause: rank 1 died: SIGSEGV (11), an invalid memory access; step 27",
       .code = "70; 0",
       .detected = "0.02 s",
       .recovered = "same command; by itself with --max-restarts",
       .lost = "< 2 x checkpoint.every",
       .same_bits = "yes"});
}

TEST_F(ProcessFaults, Row08ARankThatLeavesEarly) {
  whole();
  auto early = trainrun(words(2), {{"LOCKSTEP_FAULT", "exit:rank=1,step=50"}});
  EXPECT_EQ(early.code, kExitPeer) << early.output;
  EXPECT_HAS(early.output,
             "root cause: rank 1 left early, with exit code 0 while its peers still worked; step 50");
  continues_with_the_same_bits();
  std::filesystem::remove_all("runs/run");
  train(words(2, {"--max-restarts", "3", "--restart-delay", "0.1"}),
        {{"LOCKSTEP_FAULT", "exit:rank=1,step=50"}});
  EXPECT_EQ(final_hash("run"), final_hash("whole"));
  auto program = trainrun({"--nproc", "2", OWN_PROGRAM, "tokens.bin", "runs/own", "40", "exit0", "1", "15"});
  EXPECT_EQ(program.code, kExitPeer) << program.output;
  EXPECT_HAS(program.output,
             "root cause: rank 1 left early, with exit code 0 while its peers still worked; step 15");
  row({.fault = "a rank exits with 0 in the middle of a run, also of a program of one's own",
       .seen = "root cause: rank 1 left early, with exit code 0 while its peers still worked; step 50",
       .code = "75",
       .detected = "1 s",
       .recovered = "same command; by itself with --max-restarts",
       .lost = "< 2 x checkpoint.every",
       .same_bits = "yes"});
}

TEST_F(ProcessFaults, Row09AnExceptionOfTheUsers) {
  auto failed = [&](const char* fault, const char* seen) {
    auto result = trainrun({"--nproc", "2", "--max-restarts", "2", OWN_PROGRAM, "tokens.bin", "runs/own",
                            "40", fault, "1", "5"});
    EXPECT_EQ(result.code, 1) << result.output;
    EXPECT_HAS(result.output, seen);
    EXPECT_EQ(result.output.find("InternalError"), std::string::npos) << result.output;
    EXPECT_EQ(result.output.find("trainrun: restart"), std::string::npos) << result.output;
  };
  failed("throw", "root cause: rank 1: ProgramError at step 5: std::runtime_error: my own error in step 5");
  failed("int", "root cause: rank 1: ProgramError at step 5: int: 42");
  failed("trace", "root cause: rank 1: ProgramError: std::runtime_error: my own error while tracing");
  failed("exit3", "root cause: rank 1 exited with code 3 and left no error record; step 5");
  failed("return7", "root cause: rank 1: ProgramError at step 5: the program ended with exit code 7");
  EXPECT_HAS(trainrun({"explain", "1"}).output, "a program of your own failed");
  row({.fault = "rank 1 of a program throws a runtime_error, an int, throws while tracing, calls _exit(3)",
       .seen = "root cause: rank 1: ProgramError at step 5: std::runtime_error: my own error in step 5 "
               "(thrown at own_program.cpp:31)",
       .code = "1",
       .detected = "0.3 s",
       .recovered = "the program is mended; never restarted",
       .lost = "< 2 x checkpoint.every"});
}

TEST_F(ProcessFaults, Row11KillsAtRandom) {
  whole();
  std::filesystem::remove_all("runs/run");
  auto process = start(words(4, {"--max-restarts", "10", "--restart-delay", "0.1"}));
  int kills = 0;
  for (int64_t at : {30, 75, 120}) {
    if (!until(30, [&] { return last_step("run") >= at || process->wait(0) >= 0; }) || process->wait(0) >= 0)
      break;
    kill(ranks(4, ++kills)[static_cast<size_t>(at % 4)], SIGKILL);
  }
  EXPECT_EQ(process->wait(60), kExitOk) << process->output();
  EXPECT_EQ(kills, 3);
  EXPECT_HAS(process->output(), "restart 3 of 10 in 0.1 s, from the last checkpoint")
      << "the delay starts again after progress";
  EXPECT_EQ(final_hash("run"), final_hash("whole"));
  row({.fault = "three kills at random of 4 ranks, --max-restarts 10 (bench/goodput.sh: every 60, 30 "
                "and 10 s)",
       .seen = "restart 3 of 10 in 0.1 s, from the last checkpoint, with 4 ranks",
       .code = "0",
       .detected = "0.02 s",
       .recovered = "by itself; the delay starts again after progress",
       .lost = "< 2 x checkpoint.every each",
       .same_bits = "yes"});
}

TEST_F(ProcessFaults, Row12ACrashAtEveryStart) {
  scratch_.write("p", "#!/bin/sh\nkill -9 $$\n");
  std::filesystem::permissions("p", std::filesystem::perms::owner_all);
  for (int nproc : {1, 2, 2, 2, 2, 4}) {
    auto result = trainrun({"--nproc", str(nproc), "--max-restarts", "3", "--restart-delay", "0.01", "./p"});
    EXPECT_EQ(result.code, kExitPeer) << result.output;
    // Which of the ranks dies first differs from start to start.
    EXPECT_EQ(occurrences(result.output, "trainrun: root cause: rank "), 4) << result.output;
    EXPECT_HAS(result.output, " died: SIGKILL (9)");
    EXPECT_HAS(result.output, "restart 3 of 3 in 0.04 s");
    EXPECT_HAS(result.output, "gave up after 3 restarts");
  }
  // A rank that is killed within its start or soon after it: the run has more steps than it can finish by
  // then.
  for (int wait_ms : {0, 10, 40, 80, 120}) {
    auto process = start(words(2, {"--train.steps=100000", "--name=start"}));
    std::vector<int> children;
    ASSERT_TRUE(until(5, [&] {
      std::ifstream file(str("/proc/", process->pid(), "/task/", process->pid(), "/children"));
      children.clear();
      for (int pid; file >> pid;) children.push_back(pid);
      return children.size() >= 2;
    }));
    std::this_thread::sleep_for(std::chrono::milliseconds(wait_ms));
    kill(children[1], SIGKILL);
    EXPECT_EQ(process->wait(20), kExitPeer) << wait_ms << process->output();
    EXPECT_HAS(process->output(), "died: SIGKILL (9)");
  }
  row({.fault = "a program that kills itself at once, 1, 2 and 4 ranks, --max-restarts 3; a rank killed 0 to "
                "120 ms after its start",
       .seen = "root cause: rank 0 died: SIGKILL (9) ...; restart 3 of 3 in 2 s; gave up after 3 restarts",
       .code = "75",
       .detected = "0.02 s",
       .recovered = "three restarts, as promised, with a growing delay",
       .lost = "0"});
}

TEST_F(ProcessFaults, Row13TwoRunsOfOneName) {
  whole();
  auto first = running(2, {"--train.steps=100000"});
  auto second = trainrun(words(2));
  EXPECT_EQ(second.code, kExitUser) << second.output;
  EXPECT_HAS(second.output,
             str("runs/run is in use by another trainrun (process ", first->pid(), ", since 2"));
  EXPECT_HAS(second.output, "); wait for it, stop it, or choose --name=OTHER");
  kill(first->pid(), SIGTERM);
  EXPECT_EQ(first->wait(10), kExitStopped);
  Process beside({TRAINRUN, "--nproc", "2", "c.json", "--name=beside", "--train.device=cpu",
                  str("--train.steps=", kSteps)},
                 scratch_.path("out2"), {{"LOCKSTEP_CACHE", KERNEL_CACHE}});
  train(words(2, {"--name=other"}));
  EXPECT_EQ(beside.wait(30), kExitOk) << beside.output();
  for (const char* name : {"beside", "other"}) EXPECT_EQ(final_hash(name), final_hash("whole"));
  row({.fault = "a second trainrun on a live run; two jobs side by side",
       .seen = "runs/run is in use by another trainrun (process 12494, since 2026-11-28 12:00:00); wait for "
               "it, stop it, or choose "
               "--name=OTHER",
       .code = "2; 0",
       .detected = "5 s, which it waits",
       .recovered = "another name, or when the first has ended",
       .lost = "0",
       .same_bits = "yes"});
}

// A namespace with a loopback of its own, which is taken down under the run.
TEST_F(ProcessFaults, Row17ALinkThatIsCut) {
  if (std::system("unshare -n true 2>/dev/null && ip -V >/dev/null 2>&1 && command -v nsenter >/dev/null") !=
      0)
    GTEST_SKIP() << "needs unshare -n, nsenter and ip, and the right to make a network namespace";
  whole();
  std::filesystem::remove_all("runs/run");
  Process process(
      {"/bin/sh", "-c",
       str("exec unshare -n /bin/sh -c 'ip link set lo up; exec ", TRAINRUN,
           " --nproc 2 c.json --train.device=cpu --train.steps=100000'")},
      scratch_.path("out"),
      {{"LOCKSTEP_CACHE", KERNEL_CACHE}, {"OMPI_MCA_btl", "self,tcp"}, {"LOCKSTEP_DEADLINE", "2"}});
  ASSERT_TRUE(until(60, [&] { return last_step("run") >= 25; })) << process.output();
  ASSERT_EQ(std::system(str("nsenter -t ", process.pid(), " -n ip link set lo down").c_str()), 0);
  EXPECT_EQ(process.wait(20), kExitPeer) << process.output();
  EXPECT_HAS(process.output(),
             " did not complete within 2 s (watch.deadline), though all ranks are at it and run");
  continues_with_the_same_bits();
  row({.fault = "OMPI_MCA_btl=self,tcp in a network namespace whose loopback is taken down (by default one "
                "host uses no network)",
       .seen = "root cause: all_gather \"gather 0\" of group world did not complete within 2 s "
               "(watch.deadline), though all ranks are at it "
               "and run: a message between them is lost, or its transport stands",
       .code = "75",
       .detected = "told within 2 s; ends at the deadline",
       .recovered = "same command",
       .lost = "< 2 x checkpoint.every",
       .same_bits = "yes"});
}

}  // namespace
}  // namespace lockstep::tests
