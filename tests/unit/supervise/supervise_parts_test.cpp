// The supervisor's pure parts: the root cause, cutting lines, the command, tickets, the restart rule, folders
// that were left.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "core/base/error.h"
#include "launcher/supervise/folders/mpi.h"
#include "launcher/supervise/folders/run.h"
#include "launcher/supervise/hosts/membership.h"
#include "launcher/supervise/launch/command.h"
#include "launcher/supervise/launch/console.h"
#include "launcher/supervise/restarts.h"
#include "launcher/supervise/run/cause.h"
#include "launcher/supervise/worker/program_error.h"
#include "launcher/supervise/worker/side.h"
#include "launcher/supervise/worker/signals_apart.h"
#include "tests/support/scratch_folder.h"

namespace lockstep {

using namespace launcher;

namespace {

constexpr int exited(int code) { return code << 8; }  // as waitpid gives it

const RankEnd kKilled{2, SIGKILL}, kFailed{1, exited(3)}, kTakenAlong{0, SIGKILL, true};

AttemptFacts facts(std::vector<RankEnd> ends, std::vector<ErrorRecord> records = {}) {
  AttemptFacts out;
  out.nproc = 4, out.ends = std::move(ends), out.records = std::move(records);
  return out;
}
ErrorRecord record(int64_t rank, const char* kind, const char* message, int64_t step = 3) {
  return {rank, kind, message, step, 0, 0};
}

TEST(Cause, DeathBySignalOutranksThePeersThatNoticedIt) {
  auto out = diagnose(facts({kKilled, kTakenAlong}, {record(0, "PeerError", "rank 2 is gone\nmore")}));
  EXPECT_EQ(out.cause, "rank 2 died: SIGKILL (9), perhaps out of memory, or killed by the administrator");
  EXPECT_EQ(out.others, std::vector<std::string>{"rank 0: PeerError at step 3: rank 2 is gone"});
  EXPECT_EQ(out.exit_code, kExitPeer);
  EXPECT_EQ(out.dead, std::vector<int64_t>{2});
  EXPECT_TRUE(out.restartable);
}

TEST(Cause, OwnErrorOutranksEverythingThatFollows) {
  auto out = diagnose(facts(
      {kKilled, kTakenAlong},
      {record(0, "PeerError", "late"), record(1, "UserError", "bad data"), record(3, "InternalError", "x")}));
  EXPECT_EQ(out.cause, "rank 1: UserError at step 3: bad data");
  EXPECT_EQ(out.others.size(), 2u);
  EXPECT_EQ(out.exit_code, kExitUser);
  EXPECT_FALSE(out.restartable);
}

TEST(Cause, WhatAllRanksSayIsToldOnce) {
  auto all = diagnose(facts({kFailed, kTakenAlong}, {record(2, "UserError", "no file a", -1),
                                                     record(0, "UserError", "no file a", -1)}));
  EXPECT_EQ(all.cause, "UserError: no file a");  // wrong input before the first step is wrong for all
  EXPECT_TRUE(all.others.empty());
  auto agreed = diagnose(facts({kFailed, kTakenAlong}, {record(3, "UserError", "rank 1: disk full", 8),
                                                        record(1, "UserError", "rank 1: disk full", 8)}));
  EXPECT_EQ(agreed.cause, "rank 1: UserError at step 8: disk full");
  EXPECT_TRUE(agreed.others.empty());
  auto tokens = diagnose(facts({kFailed, kTakenAlong},
                               {record(1, "UserError", "token 9", 4), record(0, "UserError", "token 7", 4),
                                record(2, "PeerError", "gone", 4)}));
  EXPECT_EQ(tokens.cause, "rank 1: UserError at step 4: token 9");
  EXPECT_EQ(tokens.others, std::vector<std::string>{"rank 2: PeerError at step 4: gone"});
  auto peers = diagnose(facts({kFailed, kTakenAlong},
                              {record(0, "PeerError", "rank 2 is gone"),
                               record(1, "PeerError", "rank 2 is gone"), record(3, "PeerError", "late")}));
  EXPECT_EQ(peers.others, std::vector<std::string>{"rank 3: PeerError at step 3: late"});
  auto quoted =
      diagnose(facts({kFailed, kTakenAlong},
                     {record(0, "PeerError", "rank 1: no column x"),
                      record(1, "ProgramError", "std::runtime_error: no column x (thrown at a.cpp:3)")}));
  EXPECT_EQ(quoted.cause,
            "rank 1: ProgramError at step 3: std::runtime_error: no column x (thrown at a.cpp:3)");
  EXPECT_TRUE(quoted.others.empty());
}

TEST(Cause, TheStepIsToldOnce) {
  EXPECT_EQ(diagnose(facts({kFailed}, {record(1, "UserError", "step 9: the loss is nan", 9)})).cause,
            "rank 1: UserError at step 9: the loss is nan");
  EXPECT_EQ(diagnose(facts({kFailed}, {record(0, "UserError", "rank 1: step 9: disk full", 9)})).cause,
            "rank 1: UserError at step 9: disk full");
  EXPECT_EQ(diagnose(facts({kFailed}, {record(1, "UserError", "step 8: the loss is nan", 9)})).cause,
            "rank 1: UserError at step 9: step 8: the loss is nan");
}

TEST(Cause, WhoComputedWrongIsNotRestarted) {
  ErrorRecord wrong = record(3, "PeerError", "corruption: rank 1 (on h) computed wrong both times", 50);
  wrong.wrong = WrongRanks{{1}, true, "0,2,3"};
  const auto out = diagnose(facts({kFailed, kTakenAlong}, {record(0, "PeerError", "rank 3 is gone"), wrong}));
  EXPECT_EQ(out.cause, "PeerError at step 50: corruption: rank 1 (on h) computed wrong both times");
  EXPECT_EQ(out.exit_code, kExitPeer);
  EXPECT_FALSE(out.restartable);
  ASSERT_TRUE(out.wrong.has_value());
  EXPECT_EQ(out.wrong->ranks, std::vector<int64_t>{1});
  std::string line = error_record_line(wrong);
  line.pop_back();
  const auto read = parse_error_record_line(line);
  ASSERT_TRUE(read && read->wrong);
  EXPECT_EQ(read->wrong->ranks, std::vector<int64_t>{1});
  EXPECT_TRUE(read->wrong->leave_out);
  EXPECT_EQ(read->wrong->devices, "0,2,3");
}

TEST(Cause, KindsAndCodes) {
  auto of = [](const char* kind) {
    return diagnose(facts({kFailed, kTakenAlong}, {record(1, kind, "m", -1)}));
  };
  EXPECT_EQ(of("PeerError").exit_code, kExitPeer);
  EXPECT_TRUE(of("PeerError").restartable);
  EXPECT_EQ(of("InternalError").exit_code, kExitInternal);
  EXPECT_FALSE(of("InternalError").restartable);
  EXPECT_EQ(of("InternalError").cause, "rank 1: InternalError: m");
  EXPECT_EQ(diagnose(facts({kFailed, kTakenAlong})).cause,
            "rank 1 exited with code 3 and left no error record");
  EXPECT_EQ(of("ProgramError").exit_code, kExitProgram);
  EXPECT_FALSE(of("ProgramError").restartable);
  EXPECT_EQ(diagnose(facts({{0, 0}, {1, 0}})).exit_code, kExitOk);
  EXPECT_EQ(diagnose(facts({})).cause, "");
}

// The exit codes of a run are those of the table, whatever a program's own is.
TEST(Cause, ExitCodesOfAProgramAreTold) {
  for (int code = 1; code < 256; ++code) {
    auto out = diagnose(facts({{1, exited(code)}, kTakenAlong}));
    if (code == kExitStopped) {
      EXPECT_EQ(out.exit_code, kExitStopped);
      continue;
    }
    EXPECT_EQ(out.cause, str("rank 1 exited with code ", code, " and left no error record"));
    EXPECT_EQ(out.exit_code,
              code == kExitUser || code == kExitInternal || code == kExitPeer ? code : kExitProgram);
    EXPECT_EQ(out.restartable, code == kExitPeer);
  }
}

TEST(Cause, ARankThatLeftEarlyOutranksThePeersThatMissIt) {
  RankEnd early{1, 0};
  early.early = true;
  auto out = diagnose(facts({early, kTakenAlong}, {record(0, "PeerError", "rank 1 is gone")}));
  EXPECT_EQ(out.cause, "rank 1 left early, with exit code 0 while its peers still worked");
  EXPECT_EQ(out.exit_code, kExitPeer);
  EXPECT_TRUE(out.restartable);
  early.early = false;
  EXPECT_EQ(diagnose(facts({early, {0, 0}})).exit_code, kExitOk);
}

TEST(Cause, PlaceOfADeath) {
  auto with = facts({kKilled, kTakenAlong});
  with.where = [](int64_t rank) { return str("step 60 of rank ", rank); };
  EXPECT_EQ(
      diagnose(with).cause,
      "rank 2 died: SIGKILL (9), perhaps out of memory, or killed by the administrator; step 60 of rank 2");
}

TEST(Cause, LoneRank) {
  AttemptFacts alone;
  alone.ends = {{0, SIGSEGV}};
  EXPECT_EQ(diagnose(alone).cause, "rank 0 died: SIGSEGV (11), an invalid memory access");
  EXPECT_EQ(diagnose(alone).exit_code, kExitInternal);
  alone.ends = {{0, exited(5)}};
  EXPECT_EQ(diagnose(alone).cause, "the worker exited with code 5 and left no error record");
  alone.last_words[0] = "ModuleNotFoundError: No module named 'pandas'";
  EXPECT_EQ(diagnose(alone).cause,
            "the worker exited with code 5 and left no error record; its last line: ModuleNotFoundError: No "
            "module named 'pandas'");
}

TEST(Cause, Stops) {
  auto stopped = facts({{0, 0}, {1, 0}});
  stopped.stop_signal = SIGTERM;
  EXPECT_EQ(diagnose(stopped).exit_code, kExitOk);  // the run was over when the signal came
  stopped.stopped_ranks = 4;
  EXPECT_EQ(diagnose(stopped).exit_code, kExitStopped);
  EXPECT_EQ(
      stopped_text(diagnose(stopped), "--timeout 1h"),
      "stopped by --timeout 1h before its first step, with nothing new to save; the same command starts it "
      "again");
  stopped.furthest_step = 1;
  EXPECT_EQ(stopped_text(diagnose(stopped)), "stopped on request, saved; the same command continues the run");
  auto killed = facts({kTakenAlong});
  killed.stop_signal = SIGINT, killed.killed = true;
  EXPECT_EQ(diagnose(killed).exit_code, 130);
  auto unready = facts({{0, SIGUSR1}, {1, SIGKILL, true}});
  unready.stop_signal = SIGTERM;
  EXPECT_EQ(diagnose(unready).exit_code, 143);
  EXPECT_EQ(diagnose(unready).cause, "ended by SIGTERM (15) before it could save");
}

TEST(Tickets, ARecordThatNoFileTakesIsALine) {
  const ErrorRecord record{3, "PeerError", "cannot write runs/x: \"No space\"\nleft", 40, 7, 0};
  std::string line = error_record_line(record), before;
  ASSERT_EQ(line.back(), '\n');
  line.pop_back();
  EXPECT_EQ(line.find('\n'), std::string::npos);
  auto read = parse_error_record_line("mpirun says" + line, &before);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(before, "mpirun says");
  EXPECT_EQ(read->rank, 3);
  EXPECT_EQ(read->kind, record.kind);
  EXPECT_EQ(read->message, record.message);
  EXPECT_EQ(read->step, 40);
  EXPECT_EQ(read->time_ns, 7);
  ErrorRecord huge = record;
  huge.message.assign(100000, '\x01');
  EXPECT_LE(error_record_line(huge).size(), 4096u);
  line = error_record_line(huge);
  EXPECT_TRUE(parse_error_record_line(line.substr(0, line.size() - 1)).has_value());
  for (const char* other : {"", "a line", "\x1elockstep error record",
                            "\x1elockstep error record {\"rank\": \"x\"}", "\x1elockstep error record [1]"})
    EXPECT_FALSE(parse_error_record_line(other).has_value()) << other;
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

// A rank's own output is its own; what trainrun quotes of it reaches the terminal without control characters.
TEST(Console, NoticesHoldNoControlCharacters) {
  ::testing::internal::CaptureStderr();
  Console console;
  console.notice("root cause: rank 1: \033]0;title\007 bad\nsecond line");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "trainrun: root cause: rank 1: \\x1b]0;title\\x07 bad\nsecond line\n");
}

TEST(Command, OneRankIsStartedAsItIs) {
  LaunchOptions options;
  options.worker = {"/bin/worker", "a b", "it's"};
  options.threads = 3;
  auto command = launch_command(options, 1, "runs/x", "runs/x/logs/attempt-1", 2, 80);
  EXPECT_EQ(command.argv, options.worker);
  std::string shell = text(command);
  EXPECT_NE(shell.find("OMP_NUM_THREADS=3 "), std::string::npos) << shell;
  EXPECT_NE(shell.find("/runs/x/logs/attempt-1 \\\nLOCKSTEP_RESTART=2 \\\nLOCKSTEP_TERMINAL=80 \\\n"),
            std::string::npos)
      << shell;
  EXPECT_NE(shell.find("RANK=0 \\\nLOCAL_RANK=0 \\\nWORLD_SIZE=1 \\\nLOCAL_WORLD_SIZE=1 \\\n"
                       "/bin/worker 'a b' 'it'\\''s'"),
            std::string::npos)
      << shell;
}

TEST(Command, SeveralRanksUseSharedMemoryAloneUnlessTheUserSaysOtherwise) {
  LaunchOptions options;
  options.worker = {"/bin/worker"};
  std::string shell = text(launch_command(options, 3, "runs/x", "runs/x/logs/attempt-1", 0, 0));
  EXPECT_NE(shell.find("\nOMPI_MCA_btl=self,vader "), std::string::npos) << shell;
  EXPECT_NE(shell.find("\nNCCL_SOCKET_IFNAME=lo "), std::string::npos) << shell;
  EXPECT_NE(shell.find("\nRANK=R \\\nLOCAL_RANK=R \\\nWORLD_SIZE=3 \\\nLOCAL_WORLD_SIZE=3 "),
            std::string::npos)
      << shell;
  EXPECT_TRUE(shell.ends_with(" \\\n/bin/worker")) << shell;
  setenv("OMPI_MCA_btl", "self,tcp", 1);
  shell = text(launch_command(options, 3, "runs/x", "runs/x/logs/attempt-1", 0, 0));
  EXPECT_EQ(shell.find("OMPI_MCA_btl=self,vader"), std::string::npos) << shell;
  unsetenv("OMPI_MCA_btl");
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
  // What is no record, or no file, tells nothing and hides none behind it.
  const std::string more[] = {
      R"({"rank": {}})",       R"({"rank": 1e99})", R"({"step": "x"})", R"({"wrong": 3})", "[", "3",
      std::string(100000, '[')};
  int64_t next = 9;
  for (const std::string& none : more) folder.write(str("error-", next++, ".json"), none);
  ASSERT_EQ(mkfifo(folder.path(str("error-", next++, ".json")).c_str(), 0600), 0);
  folder.write(str("error-", next, ".json"), R"({"rank": 3, "message": "behind"})");
  records = read_error_records(dir);
  ASSERT_EQ(records.size(), 9u);
  EXPECT_EQ(records[8].message, "behind");
  EXPECT_EQ(write_error_record("/no/such/folder", {}), 0);
}

TEST(Failures, AFileThatCannotBeReachedIsTheUsers) {
  ScratchFolder folder;
  folder.write("plain", "text");
  try {
    std::filesystem::create_directories(folder.path("plain/below"));
    FAIL() << "a folder below a file";
  } catch (const std::filesystem::filesystem_error&) {
    const Failure failure = describe_failure(std::current_exception());
    EXPECT_EQ(failure.record.kind, "UserError");
    EXPECT_EQ(failure.exit_code, kExitUser);
    EXPECT_NE(failure.record.message.find(
                  str(folder.path("plain/below"), ": Not a directory; look at what is there")),
              std::string::npos)
        << failure.record.message;
    EXPECT_EQ(failure.record.message.find("filesystem error"), std::string::npos) << failure.record.message;
  }
}

TEST(Failures, ASystemWithoutThreadsLeftIsTold) {
  const auto failure = [](std::errc code) {
    return describe_failure(std::make_exception_ptr(std::system_error(std::make_error_code(code))));
  };
  const Failure told = failure(std::errc::resource_unavailable_try_again);
  EXPECT_EQ(told.exit_code, kExitUser);
  EXPECT_EQ(told.record.message.find("the system gives no more threads or processes"), 0u)
      << told.record.message;
  EXPECT_NE(
      told.record.message.find("; raise `ulimit -u`, or the limit of pids of the container, or take fewer "
                               "ranks or threads (compile.threads)"),
      std::string::npos)
      << told.record.message;
  EXPECT_EQ(failure(std::errc::io_error).exit_code, kExitInternal);
}

TEST(Failures, AnExceptionOfAProgramHasTypeAndText) {
  auto text = [](auto thrown) { return exception_text(std::make_exception_ptr(thrown)); };
  EXPECT_EQ(text(std::runtime_error("no column x")), "std::runtime_error: no column x");
  EXPECT_EQ(text(42), "int: 42");
  EXPECT_EQ(text(std::string("as it is")), "as it is");
  EXPECT_EQ(text(3.5), "double");
  EXPECT_EQ(exception_text(nullptr), "std::terminate was called without an exception");
}

TEST(Restarts, RanksAndDelays) {
  LaunchOptions options;
  EXPECT_EQ(next_nproc(options, 4, 1), 4);
  options.min_nproc = 2;
  EXPECT_EQ(next_nproc(options, 4, 1), 3);
  EXPECT_EQ(next_nproc(options, 4, 0), 4);
  EXPECT_EQ(next_nproc(options, 2, 1), 2);
  EXPECT_EQ(restart_delay(options, 0), 0);
  EXPECT_EQ(restart_delay(options, 1), 0.5);
  EXPECT_EQ(restart_delay(options, 4), 4);
  EXPECT_EQ(restart_delay(options, 40), 30);
  options.hosts.reach = Reach::ssh;
  EXPECT_EQ(restart_delay(options, 0), 0.5);
  EXPECT_EQ(restart_delay(options, 3), 4);
  options.hosts.reach = Reach::here;
  options.restart_delay = 100;
  EXPECT_EQ(restart_delay(options, 0), 100);
  EXPECT_EQ(restart_delay(options, 3), 100);
  options.restart_delay = 0;
  EXPECT_EQ(restart_delay(options, 5), 0);
}

TEST(Restarts, ProgressIsAFurtherStepOrANewCheckpoint) {
  Progress run{-1, 20};  // a checkpoint that was there before is none of its own
  EXPECT_FALSE(run.advance(-1, 20));
  EXPECT_TRUE(run.advance(25, 20));
  EXPECT_FALSE(run.advance(25, 20)) << "the same step again is where it fails, not progress";
  EXPECT_FALSE(run.advance(22, 20));
  EXPECT_TRUE(run.advance(22, 22));
  EXPECT_TRUE(run.advance(26, 22));
  ScratchFolder folder;
  EXPECT_EQ(newest_checkpoint(folder.path("")), -1);
  for (const char* name : {"step-5", "step-40", "step-100.tmp", "step-x", "latest"})
    std::filesystem::create_directories(folder.path(str("ckpt/", name)));
  EXPECT_EQ(newest_checkpoint(folder.path("")), 40);
}

// No handler runs on the thread that computes, nor on those that it starts; afterwards they hear signals
// again.
std::atomic<int> g_heard{0};
std::atomic<pthread_t> g_heard_on{};
TEST(SignalsApart, AreHeardOnAThreadOfTheirOwn) {
  struct sigaction action{}, before{};
  action.sa_handler = [](int) { g_heard_on = pthread_self(), ++g_heard; };
  sigaction(SIGUSR2, &action, &before);
  auto heard = [](int times) {
    for (int i = 0; i < 2000 && g_heard < times; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
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
