// Death, signals and restarts: what the user sees, the exit code, the logs, and that no process or file is
// left.
#include "tests/process/supervise/supervised.h"

namespace lockstep {
namespace {

TEST_F(Supervise, CleanRunLogsEachRankAndPrefixesAllButTheFirst) {
  for (int nproc : {1, 2, 3}) {
    auto name = str("run", nproc);
    auto process = start({"3"}, {.nproc = nproc}, name.c_str());
    EXPECT_EQ(process.wait(20), kExitOk) << process.output();
    auto output = process.output();
    for (int rank = 0; rank < nproc; ++rank) {
      EXPECT_HAS(run(name.c_str()).log(rank), str("done rank ", rank, "\n"));
      EXPECT_HAS(run(name.c_str()).log(rank), str("start rank ", rank, " of ", nproc));
      EXPECT_HAS("\n" + output,
                 rank ? str("\n[rank ", rank, "] done rank ", rank, "\n") : std::string("\ndone rank 0\n"));
    }
    EXPECT_LACKS(output, "trainrun:");
  }
}

TEST_F(Supervise, UsersThreadCountIsKept) {
  auto process = start({"1"}, {.nproc = 2, .variables = {{"OMP_NUM_THREADS", "7"}}});
  EXPECT_EQ(process.wait(20), kExitOk);
  EXPECT_HAS(process.output(), "threads 7");
}

TEST_F(Supervise, KilledWorkerIsTheRootCauseAndAllEndWithinTwoSeconds) {
  auto process = start({"2000"});
  auto pids = run().pids(3);
  ASSERT_TRUE(until(5, [&] { return run().log(2).size() > 0; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  auto then = std::chrono::steady_clock::now();
  kill(pids[2], SIGKILL);
  EXPECT_EQ(process.wait(10), kExitPeer);
  EXPECT_LT(seconds_since(then), 2.0 * kSlowness);
  EXPECT_TRUE(all_gone(pids, 0));
  EXPECT_HAS(
      process.output(),
      "root cause: rank 2 died: SIGKILL (9), perhaps out of memory, or killed by the administrator; step ");
  EXPECT_HAS(process.output(), "logs: ");
}

TEST_F(Supervise, KilledOnlyWorker) {
  auto process = start({"2000"}, {.nproc = 1});
  kill(run().pid(0), SIGKILL);
  EXPECT_EQ(process.wait(5), kExitPeer);
  EXPECT_HAS(process.output(), "root cause: rank 0 died: SIGKILL (9)");
}

TEST_F(Supervise, FaultSaysTheStep) {
  auto process = start({"2000"}, {.nproc = 2, .variables = {{"LOCKSTEP_FAULT", "segv:rank=1,step=9"}}});
  EXPECT_EQ(process.wait(15), kExitInternal);
  EXPECT_HAS(process.output(), "root cause: rank 1 died: SIGSEGV (11), an invalid memory access; step 9\n");
}

TEST_F(Supervise, MalformedFaultIsAUserError) {
  auto process = start({"5"}, {.nproc = 1, .variables = {{"LOCKSTEP_FAULT", "kill rank 2"}}});
  EXPECT_EQ(process.wait(10), kExitUser);
  EXPECT_HAS(process.output(),
             "LOCKSTEP_FAULT is \"kill rank 2\"; write KIND:rank=R,step=S with KIND one of kill, segv, hang, "
             "throw, exit, flip, burst, spike, wrong, glitch");
}

TEST_F(Supervise, ContradictingEnvironmentIsAUserError) {
  std::string out = scratch_path() / "alone.out";
  auto code = [&](std::map<std::string, std::string> variables) {
    return Process({FAKE_WORKER, "1"}, out, variables).wait(10);
  };
  EXPECT_EQ(code({}), kExitOk);
  EXPECT_EQ(code({{"RANK", "1"}, {"WORLD_SIZE", "3"}}), kExitOk);
  EXPECT_HAS(file_text(out), "start rank 1 of 3");
  EXPECT_EQ(code({{"RANK", "3"}, {"WORLD_SIZE", "3"}}), kExitUser);
  EXPECT_HAS(file_text(out), "rank 3 is not below the world size 3; check RANK and WORLD_SIZE");
  EXPECT_EQ(code({{"RANK", "1"}}), kExitUser);
  EXPECT_HAS(file_text(out), "WORLD_SIZE is not set; it must be a number");
  EXPECT_EQ(code({{"RANK", "one"}, {"WORLD_SIZE", "3"}}), kExitUser);
  EXPECT_HAS(file_text(out), "RANK is \"one\"; it must be a number");
  EXPECT_EQ(code({{"RANK", "1"}, {"WORLD_SIZE", "3"}, {"LOCAL_RANK", "2"}, {"LOCAL_WORLD_SIZE", "2"}}),
            kExitUser);
  EXPECT_HAS(
      file_text(out),
      "local rank 2 of 2 on this host contradicts a world of 3; check LOCAL_RANK and LOCAL_WORLD_SIZE");
}

TEST_F(Supervise, KilledTrainrunLeavesNoWorkerAndTheNextCommandStarts) {
  for (int nproc : {1, 3}) {
    auto name = str("run", nproc);
    auto process = start({"2000", "mpi"}, {.nproc = nproc}, name.c_str());
    auto pids = run(name.c_str()).pids(nproc);
    kill(process.pid(), SIGKILL);
    EXPECT_EQ(process.wait(5), 128 + SIGKILL);
    auto next = start({"2"}, {.nproc = nproc}, name.c_str());
    EXPECT_TRUE(all_gone(pids, 3));
    EXPECT_EQ(next.wait(15), kExitOk) << next.output();
    EXPECT_HAS(run(name.c_str()).log(0, 2), "done rank 0");
  }
}

// What systemd (KillMode=control-group) and schedulers do: the signal goes to every process of the job.
TEST_F(Supervise, ASignalToAllProcessesAtOnceStopsAndSaves) {
  for (int signal : {SIGTERM, SIGINT, SIGHUP}) {
    for (int nproc : {1, 3}) {
      auto name = str("all", nproc, "-", signal);
      auto process = start({"2000"}, {.nproc = nproc}, name.c_str());
      auto pids = run(name.c_str()).pids(nproc);
      for (int pid : pids) kill(pid, signal);
      kill(process.pid(), signal);
      EXPECT_EQ(process.wait(5), kExitStopped) << process.output();
      for (int rank = 0; rank < nproc; ++rank) EXPECT_HAS(run(name.c_str()).log(rank), "saved at step ");
    }
  }
}

TEST_F(Supervise, ASignalToAllDuringStartUpIsHeardLater) {
  auto process = start({"2000"}, {.variables = {{"FAKE_HEEDS_STOP", "1"}}});
  std::vector<int> children;
  ASSERT_TRUE(until(5, [&] {
    std::ifstream file(str("/proc/", process.pid(), "/task/", process.pid(), "/children"));
    children.clear();
    for (int pid; file >> pid;) children.push_back(pid);
    return children.size() == 3;
  }));
  for (int pid : children) kill(pid, SIGTERM);
  kill(process.pid(), SIGTERM);
  EXPECT_EQ(process.wait(10), kExitStopped) << process.output();
}

TEST_F(Supervise, WhatNohupIgnoresStaysIgnored) {
  for (int nproc : {1, 2}) {
    auto name = str("run", nproc);
    signal(SIGHUP, SIG_IGN);  // inherited
    auto process = start({"50"}, {.nproc = nproc}, name.c_str());
    signal(SIGHUP, SIG_DFL);
    auto pids = run(name.c_str()).pids(nproc);
    for (int pid : pids) kill(pid, SIGHUP);
    kill(process.pid(), SIGHUP);
    EXPECT_EQ(process.wait(10), kExitOk) << process.output();
    EXPECT_HAS(run(name.c_str()).log(0), "done rank 0");
    EXPECT_LACKS(process.output(), "finishing the step");
  }
}

TEST_F(Supervise, SignalStopsSavesAndExitsWithItsCode) {
  for (int signal : {SIGTERM, SIGINT}) {
    for (int nproc : {1, 3}) {
      auto name = str("run", nproc, "-", signal);
      auto process = start({"2000"}, {.nproc = nproc}, name.c_str());
      auto pids = run(name.c_str()).pids(nproc);
      kill(process.pid(), signal);
      EXPECT_EQ(process.wait(5), kExitStopped) << process.output();
      for (int rank = 0; rank < nproc; ++rank) EXPECT_HAS(run(name.c_str()).log(rank), "saved at step ");
      EXPECT_HAS(process.output(), "finishing the step and saving; a second signal kills at once");
      EXPECT_HAS(process.output(), "stopped on request, saved; the same command continues the run");
      EXPECT_TRUE(all_gone(pids, 0));
    }
  }
}

TEST_F(Supervise, SignalDuringStartUpIsHeardLater) {
  auto process = start({"2000"});
  ASSERT_TRUE(until(5, [&] { return std::filesystem::exists(run().log_dir()); }));
  kill(process.pid(), SIGTERM);
  EXPECT_EQ(process.wait(10), kExitStopped) << process.output();
}

TEST_F(Supervise, SecondSignalKillsAtOnce) {
  for (int nproc : {1, 3}) {
    auto name = str("run", nproc);
    auto process = start({"2000", "deaf"}, {.nproc = nproc}, name.c_str());
    auto pids = run(name.c_str()).pids(nproc);
    kill(process.pid(), SIGTERM);
    ASSERT_TRUE(until(5, [&] { return process.output().find("finishing the step") != std::string::npos; }));
    EXPECT_EQ(process.wait(0.3), -1);
    auto then = std::chrono::steady_clock::now();
    kill(process.pid(), SIGTERM);
    EXPECT_EQ(process.wait(5), 128 + SIGTERM);
    EXPECT_LT(seconds_since(then), 1.0 * kSlowness);
    EXPECT_TRUE(all_gone(pids, 0));
    EXPECT_HAS(process.output(), "killing all ranks: second signal");
  }
}

// GNU timeout signals its child and then its group, of which it is the leader: that is one wish.
TEST_F(Supervise, WhatTimeoutSendsTwiceIsOneSignal) {
  for (const char* signal : {"INT", "TERM"}) {
    const std::string run_folder = folder(signal);
    Process process({"/usr/bin/timeout", "--preserve-status", "-s", signal, "2", FAKE_TRAINRUN, run_folder,
                     "2", "0", "0", "10", FAKE_WORKER, "2000"},
                    run_folder + ".out");
    EXPECT_EQ(process.wait(15), kExitStopped) << process.output();
    EXPECT_HAS(process.output(), "stopped on request, saved");
    EXPECT_LACKS(process.output(), "killing all ranks");
  }
}

TEST_F(Supervise, GraceEnds) {
  auto process = start({"2000", "deaf"}, {.nproc = 2, .grace = 0.5});
  auto pids = run().pids(2);
  kill(process.pid(), SIGTERM);
  EXPECT_EQ(process.wait(5), 128 + SIGTERM);
  EXPECT_TRUE(all_gone(pids, 0));
  EXPECT_HAS(process.output(), "killing all ranks: not done 0.5 s after the first signal");
  EXPECT_HAS(process.output(), "root cause: killed after SIGTERM (15) before the run had saved and ended");
}

TEST_F(Supervise, UserErrorIsReportedOnceAndNeverRestarted) {
  auto process = start({"2000", "throw-user", "1", "4"}, {.max_restarts = 3});
  EXPECT_EQ(process.wait(10), kExitUser);
  auto output = process.output();
  EXPECT_HAS(output, "root cause: rank 1: UserError at step 4: the data is wrong: got 3, want 4\n");
  EXPECT_EQ(output.find("the data is wrong"), output.rfind("the data is wrong"));
  EXPECT_LACKS(output, "trainrun: restart");
  EXPECT_HAS(run().log(1), "UserError: the data is wrong: got 3, want 4\n");
}

TEST_F(Supervise, ForeignExceptionIsInternal) {
  auto process = start({"2000", "throw-other", "0", "2"}, {.nproc = 2, .max_restarts = 3});
  EXPECT_EQ(process.wait(10), kExitInternal);
  EXPECT_HAS(process.output(),
             "root cause: rank 0: InternalError at step 2: exception that is not of Lockstep: a stranger");
}

TEST_F(Supervise, APeerErrorLeavesWhereItIsThrown) {
  for (int nproc : {1, 2}) {
    auto name = str("stuck", nproc);
    auto then = std::chrono::steady_clock::now();
    auto process = start({"20", "throw-stuck", "0", "4"}, {.nproc = nproc}, name.c_str());
    EXPECT_EQ(process.wait(10), kExitPeer) << process.output();
    EXPECT_LT(seconds_since(then), 5.0 * kSlowness);
    EXPECT_HAS(process.output(), "PeerError at step 4: rank 1 is gone");
    EXPECT_LACKS(run(name.c_str()).log(0), "unwound");
  }
}

TEST_F(Supervise, PeerErrorRestarts) {
  auto process = start({"20", "throw-peer", "0", "4"}, {.nproc = 2, .max_restarts = 2});
  EXPECT_EQ(process.wait(20), kExitOk) << process.output();
  EXPECT_HAS(process.output(), "root cause: rank 0: PeerError at step 4: rank 1 is gone");
  EXPECT_HAS(process.output(), "restart 1 of 2 in 0.05 s, from the last checkpoint, with 2 ranks\n");
  EXPECT_HAS(run().log(1, 2), "start rank 1 of 2 restart 1");
  EXPECT_HAS(run().log(1, 2), "done rank 1");
}

TEST_F(Supervise, RestartGoesOnWithTheRanksThatAreLeft) {
  auto process = start({"20"}, {.nproc = 3,
                                .max_restarts = 1,
                                .min_nproc = 2,
                                .variables = {{"LOCKSTEP_FAULT", "kill:rank=2,step=5"}}});
  EXPECT_EQ(process.wait(20), kExitOk) << process.output();
  EXPECT_HAS(process.output(), "with 2 ranks (3 before)");
  EXPECT_HAS(run().log(0, 2), "start rank 0 of 2 restart 1");
}

TEST_F(Supervise, RanksAreTakenBackAtAStepBoundary) {
  auto process =
      start({"100"}, {.nproc = 3,
                      .max_restarts = 1,
                      .min_nproc = 2,
                      .variables = {{"LOCKSTEP_FAULT", "kill:rank=2,step=5"}, {"FAKE_GROW_AFTER", "0.5"}}});
  EXPECT_EQ(process.wait(30), kExitOk) << process.output();
  EXPECT_HAS(process.output(), "with 2 ranks (3 before)");
  EXPECT_HAS(process.output(),
             "trainrun: 2 of 3 ranks, and others can be had again: finishing the step and saving, to go on "
             "with 3 ranks\n");
  EXPECT_HAS(run().log(1, 2), "saved at step ");
  EXPECT_HAS(process.output(), "trainrun: goes on with 3 ranks (2 before)\n");
  EXPECT_HAS(run().log(2, 3), "start rank 2 of 3 restart 2");
  EXPECT_HAS(run().log(2, 3), "done rank 2");
}

TEST_F(Supervise, AProgramThatDoesNotHearIsNotKilledForRanksThatAreBack) {
  auto process = start({"60", "deaf"},
                       {.nproc = 2,
                        .max_restarts = 1,
                        .min_nproc = 1,
                        .grace = 0.1,
                        .variables = {{"LOCKSTEP_FAULT", "kill:rank=1,step=5"}, {"FAKE_GROW_AFTER", "0.2"}}});
  EXPECT_EQ(process.wait(30), kExitOk) << process.output();
  EXPECT_HAS(
      process.output(),
      "1 of 2 ranks, and others can be had again: finishing the step and saving, to go on with 2 ranks\n");
  EXPECT_LACKS(process.output(), "killing all ranks");
  EXPECT_HAS(run().log(0, 2), "done rank 0");
}

TEST_F(Supervise, ALimitOfTimeStopsSavesAndKillsWhoDoesNotStop) {
  auto process = start({"2000"}, {.nproc = 2, .variables = {{"FAKE_TIMEOUT", "0.5"}}});
  EXPECT_EQ(process.wait(10), kExitStopped) << process.output();
  EXPECT_HAS(process.output(), "trainrun: --timeout 0.5 s: finishing the step and saving\n");
  EXPECT_HAS(process.output(),
             "trainrun: stopped by --timeout 0.5 s, saved; the same command continues the run\n");
  auto deaf =
      start({"2000", "deaf"}, {.nproc = 2, .grace = 0.3, .variables = {{"FAKE_TIMEOUT", "0.5"}}}, "deaf");
  EXPECT_EQ(deaf.wait(10), 128 + SIGTERM) << deaf.output();
  EXPECT_HAS(deaf.output(), "killing all ranks: not done 0.3 s after --timeout 0.5 s\n");
  EXPECT_HAS(deaf.output(), "root cause: killed after --timeout 0.5 s before the run had saved and ended\n");
  EXPECT_LACKS(deaf.output(), "trainrun: restart");
}

TEST_F(Supervise, RestartStormEndsAndNamesTheFirstCause) {
  auto process = start({"20", "storm", "0"}, {.nproc = 1, .max_restarts = 2});
  EXPECT_EQ(process.wait(20), kExitPeer);
  EXPECT_HAS(process.output(), "restart 2 of 2 in 0.1 s");
  EXPECT_HAS(process.output(), "root cause: PeerError at step 1: attempt 3 fails too");
  EXPECT_HAS(process.output(),
             "gave up after 2 restarts; the first failure was: PeerError at step 1: attempt 1 fails too");
}

TEST_F(Supervise, ExitCodeWithoutARecord) {
  for (int nproc : {1, 2}) {
    auto name = str("run", nproc);
    auto process = start({"2000", "exit=7", str(nproc - 1), "3"}, {.nproc = nproc}, name.c_str());
    EXPECT_EQ(process.wait(10), launcher::kExitProgram);
    EXPECT_HAS(process.output(),
               str(nproc == 1 ? "the worker" : "rank 1", " exited with code 7 and left no error record"));
  }
}

TEST_F(Supervise, RankThatLeavesEarlyIsNamed) {
  auto process = start({"2000", "mpi-early", "1", "3"}, {.nproc = 2});
  EXPECT_EQ(process.wait(15), kExitPeer);
  EXPECT_HAS(process.output(),
             "root cause: rank 1 left early, with exit code 0 while its peers still worked; step 3");
}

}  // namespace
}  // namespace lockstep
