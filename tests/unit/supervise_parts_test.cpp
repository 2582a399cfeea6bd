// The supervisor's pure parts: the root cause, what mpirun says, cutting lines, the command, tickets, the restart rule.
#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>

#include "core/base/error.h"
#include "launcher/supervise/cause.h"
#include "launcher/supervise/command.h"
#include "launcher/supervise/console.h"
#include "launcher/supervise/signals_apart.h"
#include "launcher/supervise/supervisor.h"
#include "tests/support/scratch_folder.h"

namespace lockstep {
namespace {

constexpr int kExit1 = 1 << 8;  // wait status of exit code 1

const char* kKilled = "-----\nmpirun noticed that process rank 2 with PID 0 on node vm exited on signal 9 (Killed).\n-----\n";
const char* kNonZero =
    "mpirun detected that one or more processes exited with non-zero status, thus causing\nthe job to be terminated. The first process to "
    "do so was:\n\n"
    "  Process name: [[29620,1],1]\n  Exit code:    3\n";

AttemptFacts facts(int status, const std::string& words, std::vector<ErrorRecord> records = {}) {
  AttemptFacts out;
  out.nproc = 4, out.direct = false, out.wait_status = status, out.launcher_words = words, out.records = std::move(records);
  return out;
}
ErrorRecord record(int64_t rank, const char* kind, const char* message, int64_t step = 3) { return {rank, kind, message, step, 0, 0}; }

TEST(Cause, LauncherWords) {
  EXPECT_EQ(read_launcher_words(kKilled).rank, 2);
  EXPECT_EQ(read_launcher_words(kKilled).signal, 9);
  EXPECT_EQ(read_launcher_words(kNonZero).rank, 1);
  EXPECT_EQ(read_launcher_words(kNonZero).exit_code, 3);
  EXPECT_EQ(read_launcher_words("").rank, -1);
}

TEST(Cause, DeathBySignalOutranksThePeersThatNoticedIt) {
  auto out = diagnose(facts(kExit1, kKilled, {record(0, "PeerError", "rank 2 is gone\nmore")}));
  EXPECT_EQ(out.cause, "rank 2 died: SIGKILL (9), perhaps out of memory, or killed by the administrator");
  EXPECT_EQ(out.others, std::vector<std::string>{"rank 0: PeerError at step 3: rank 2 is gone"});
  EXPECT_EQ(out.exit_code, kExitPeer);
  EXPECT_EQ(out.dead, std::vector<int64_t>{2});
  EXPECT_TRUE(out.restartable);
}

TEST(Cause, OwnErrorOutranksEverythingThatFollows) {
  auto out = diagnose(
      facts(kExit1, kKilled, {record(0, "PeerError", "late"), record(1, "UserError", "bad data"), record(3, "InternalError", "x")}));
  EXPECT_EQ(out.cause, "rank 1: UserError at step 3: bad data");
  EXPECT_EQ(out.others.size(), 2u);
  EXPECT_EQ(out.exit_code, kExitUser);
  EXPECT_FALSE(out.restartable);
}

TEST(Cause, WhatAllRanksSayIsToldOnce) {
  auto all = diagnose(facts(kExit1, kNonZero, {record(2, "UserError", "no file a", -1), record(0, "UserError", "no file a", -1)}));
  EXPECT_EQ(all.cause, "UserError: no file a");  // wrong input before the first step is wrong for all
  EXPECT_TRUE(all.others.empty());
  auto agreed = diagnose(facts(kExit1, kNonZero, {record(3, "UserError", "rank 1: disk full", 8), record(1, "UserError", "rank 1: disk full", 8)}));
  EXPECT_EQ(agreed.cause, "rank 1: UserError at step 8: disk full");
  EXPECT_TRUE(agreed.others.empty());
  auto tokens = diagnose(facts(kExit1, kNonZero, {record(1, "UserError", "token 9", 4), record(0, "UserError", "token 7", 4), record(2, "PeerError", "gone", 4)}));
  EXPECT_EQ(tokens.cause, "rank 1: UserError at step 4: token 9");
  EXPECT_EQ(tokens.others, std::vector<std::string>{"rank 2: PeerError at step 4: gone"});
  auto peers = diagnose(facts(kExit1, kNonZero, {record(0, "PeerError", "rank 2 is gone"), record(1, "PeerError", "rank 2 is gone"), record(3, "PeerError", "late")}));
  EXPECT_EQ(peers.others, std::vector<std::string>{"rank 3: PeerError at step 3: late"});
}

TEST(Cause, KindsAndCodes) {
  auto of = [](const char* kind) { return diagnose(facts(kExit1, kNonZero, {record(1, kind, "m", -1)})); };
  EXPECT_EQ(of("PeerError").exit_code, kExitPeer);
  EXPECT_TRUE(of("PeerError").restartable);
  EXPECT_EQ(of("InternalError").exit_code, kExitInternal);
  EXPECT_FALSE(of("InternalError").restartable);
  EXPECT_EQ(of("InternalError").cause, "rank 1: InternalError: m");
  EXPECT_EQ(diagnose(facts(kExit1, kNonZero)).cause, "rank 1 exited with code 3 and left no error record");
  EXPECT_EQ(diagnose(facts(kExit1, kNonZero)).exit_code, 3);
  EXPECT_EQ(diagnose(facts(0, "")).exit_code, kExitOk);
  EXPECT_EQ(diagnose(facts(0, "")).cause, "");
  EXPECT_EQ(diagnose(facts(kExit1, "no slots")).cause, "mpirun exited with code 1:\nno slots");
  EXPECT_EQ(diagnose(facts(SIGKILL, "")).cause, "mpirun died: SIGKILL (9)");
  EXPECT_TRUE(diagnose(facts(SIGKILL, "")).restartable);
}

TEST(Cause, PlaceOfADeath) {
  auto with = facts(kExit1, kKilled);
  with.where = [](int64_t rank) { return str("step 60 of rank ", rank); };
  EXPECT_EQ(diagnose(with).cause, "rank 2 died: SIGKILL (9), perhaps out of memory, or killed by the administrator; step 60 of rank 2");
}

TEST(Cause, LoneRank) {
  AttemptFacts alone;
  alone.wait_status = SIGSEGV;
  EXPECT_EQ(diagnose(alone).cause, "rank 0 died: SIGSEGV (11), an invalid memory access");
  EXPECT_EQ(diagnose(alone).exit_code, kExitInternal);
  alone.wait_status = 5 << 8;
  EXPECT_EQ(diagnose(alone).cause, "the worker exited with code 5 and left no error record");
}

TEST(Cause, Stops) {
  auto stopped = facts(0, "");
  stopped.stop_signal = SIGTERM;
  EXPECT_EQ(diagnose(stopped).exit_code, kExitOk);  // the run was over when the signal came
  stopped.stopped_ranks = 4;
  EXPECT_EQ(diagnose(stopped).exit_code, kExitStopped);
  auto killed = facts(SIGKILL, "");
  killed.stop_signal = SIGINT, killed.killed = true;
  EXPECT_EQ(diagnose(killed).exit_code, 130);
  auto unready = facts(kExit1, "process rank 0 with PID 0 on node vm exited on signal 10 (User defined signal 1).");
  unready.stop_signal = SIGTERM;
  EXPECT_EQ(diagnose(unready).exit_code, 143);
  EXPECT_EQ(diagnose(unready).cause, "ended by SIGTERM (15) before it could save");
}

TEST(Console, CutsLinesAndLiveLines) {
  LineCutter cutter;
  auto all = [&](const std::string& bytes) {
    cutter.add(bytes.data(), bytes.size());
    std::string out;
    for (LineCutter::Piece piece; cutter.next(piece);) out += (piece.live ? "~" : "|") + piece.text;
    return out;
  };
  EXPECT_EQ(all("one\ntwo"), "|one");
  EXPECT_EQ(all("\nstep 1\rstep 2\r"), "|two~step 1~step 2");
  EXPECT_EQ(all("a\r\n\nb"), "|a|");
  EXPECT_EQ(cutter.rest(), "b");
  EXPECT_EQ(cutter.rest(), "");
}

TEST(Console, PrefixesAllRanksButTheFirstOnce) {
  ScratchFolder folder;
  std::FILE* file = std::fopen(folder.path("out").c_str(), "w");
  {
    Console console(file);
    EXPECT_EQ(console.columns(), 0);
    console.rank_line(0, "zero");
    console.rank_line(3, "three");
    console.rank_line(3, "[rank 3] warned");
    console.live("never shown off a terminal");
  }
  std::fclose(file);
  std::ifstream in(folder.path("out"));
  std::string text{std::istreambuf_iterator<char>(in), {}};
  EXPECT_EQ(text, "zero\n[rank 3] three\n[rank 3] warned\n");
}

TEST(Command, OneRankIsStartedAsItIs) {
  LaunchOptions options;
  options.worker = {"/bin/worker", "a b", "it's"};
  options.threads = 3;
  auto command = launch_command(options, 1, "runs/x", "runs/x/logs/attempt-1", 2, 80);
  EXPECT_EQ(command.argv, options.worker);
  std::string shell = text(command);
  EXPECT_NE(shell.find("OMP_NUM_THREADS=3 "), std::string::npos) << shell;
  EXPECT_NE(shell.find("/runs/x/logs/attempt-1 LOCKSTEP_RESTART=2 LOCKSTEP_TERMINAL=80 "), std::string::npos) << shell;
  EXPECT_NE(shell.find("RANK=0 LOCAL_RANK=0 WORLD_SIZE=1 LOCAL_WORLD_SIZE=1 /bin/worker 'a b' 'it'\\''s'"), std::string::npos) << shell;
}

TEST(Command, SeveralRanksUnderMpirun) {
  LaunchOptions options;
  options.worker = {"/bin/worker"};
  std::string shell = text(launch_command(options, 3, "runs/x", "runs/x/logs/attempt-1", 0, 0));
  EXPECT_NE(shell.find("/mpirun -np 3 --bind-to none --oversubscribe "), std::string::npos) << shell;
  EXPECT_NE(shell.find("OMPI_ALLOW_RUN_AS_ROOT=1"), std::string::npos);
  EXPECT_EQ(shell.substr(shell.size() - 12), " /bin/worker");
}

TEST(Command, Threads) {
  unsetenv("OMP_NUM_THREADS");
  LaunchOptions options;
  EXPECT_EQ(threads_per_rank(options, 1, 8), 8);
  EXPECT_EQ(threads_per_rank(options, 3, 8), 2);
  EXPECT_EQ(threads_per_rank(options, 16, 8), 1);
  setenv("OMP_NUM_THREADS", "5", 1);
  EXPECT_EQ(threads_per_rank(options, 3, 8), 5);
  options.threads = 2;
  EXPECT_EQ(threads_per_rank(options, 3, 8), 2);
  unsetenv("OMP_NUM_THREADS");
}

TEST(Tickets, EachFailureTakesTheNextOne) {
  ScratchFolder folder;
  std::string dir = folder.path("");
  EXPECT_TRUE(read_error_records(dir).empty());
  std::vector<int64_t> tickets(8);
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < 8; ++rank)
    threads.emplace_back([&, rank] {
      tickets[rank] = write_error_record(dir, {rank, "PeerError", str("from ", rank, " \xff"), rank, 1, 0});
    });
  for (auto& thread : threads) thread.join();
  auto records = read_error_records(dir);
  ASSERT_EQ(records.size(), 8u);
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(records[i].ticket, static_cast<int64_t>(i) + 1);
    EXPECT_EQ(tickets[records[i].rank], records[i].ticket);
    EXPECT_EQ(records[i].message.substr(0, 6), str("from ", records[i].rank));
  }
  EXPECT_EQ(write_error_record("/no/such/folder", {}), 0);
}

TEST(Restarts, RanksAndDelays) {
  LaunchOptions options;
  EXPECT_EQ(next_nproc(options, 4, 1), 4);
  options.min_nproc = 2;
  EXPECT_EQ(next_nproc(options, 4, 1), 3);
  EXPECT_EQ(next_nproc(options, 4, 0), 4);
  EXPECT_EQ(next_nproc(options, 2, 1), 2);
  EXPECT_EQ(restart_delay(options, 1), 1);
  EXPECT_EQ(restart_delay(options, 4), 8);
  EXPECT_EQ(restart_delay(options, 40), 30);
}

// No handler runs on the thread that computes, nor on those that it starts; afterwards they hear signals again.
std::atomic<int> g_heard{0};
std::atomic<pthread_t> g_heard_on{};
TEST(SignalsApart, AreHeardOnAThreadOfTheirOwn) {
  struct sigaction action {}, before {};
  action.sa_handler = [](int) { g_heard_on = pthread_self(), ++g_heard; };
  sigaction(SIGUSR2, &action, &before);
  auto heard = [](int times) {
    for (int i = 0; i < 2000 && g_heard < times; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return g_heard == times;
  };
  {
    SignalsApart apart({SIGUSR2});
    for (int times = 1; times <= 20; ++times) {
      kill(getpid(), SIGUSR2);
      ASSERT_TRUE(heard(times));
      EXPECT_FALSE(pthread_equal(g_heard_on, pthread_self()));
    }
    std::thread worker([] {
      sigset_t blocked;
      pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
      EXPECT_EQ(sigismember(&blocked, SIGUSR2), 1);
    });
    worker.join();
  }
  kill(getpid(), SIGUSR2);
  ASSERT_TRUE(heard(21));
  EXPECT_TRUE(pthread_equal(g_heard_on, pthread_self()));
  sigaction(SIGUSR2, &before, nullptr);
}

}  // namespace
}  // namespace lockstep
