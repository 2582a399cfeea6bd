// Faults of processes that live and do not go on: stopped, spinning and slow ranks.
#include "tests/faults/fault_run.h"

namespace lockstep::tests {
namespace {

class WatchRun : public FaultRun {
 protected:
  static bool said(Process& process, const std::string& words, double seconds) {
    return until(seconds, [&] { return process.output().find(words) != std::string::npos; });
  }
  bool trains(int64_t step) {
    return until(60, [&] { return last_step("run") >= step; });
  }
  int pid(int rank) { return RunRecord("runs/run").pid(rank); }
  static double seconds_of(const std::function<void()>& work) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  static std::string seconds_text(double seconds) {
    char out[32];
    std::snprintf(out, sizeof out, "%.1f s", seconds);
    return out;
  }
};

TEST_F(WatchRun, Row06OneRankStopped) {
  write_tiny();
  const std::vector<std::string> words = {
      "--nproc", "2", "--deadline", "4", "--train.device=cpu", "--train.steps=100000", "c.json"};
  auto process = start(words);
  ASSERT_TRUE(trains(20)) << process->output();
  // Stopped and continued again, as a debugger does: nothing is lost.
  kill(pid(1), SIGSTOP);
  const double told =
      seconds_of([&] { EXPECT_TRUE(said(*process, "rank 1 (process", 10)) << process->output(); });
  kill(pid(1), SIGCONT);
  EXPECT_TRUE(said(*process, "rank 1 runs again after", 10)) << process->output();
  const int64_t then = last_step("run");
  EXPECT_TRUE(trains(then + 5)) << process->output();
  kill(pid(1), SIGSTOP);
  EXPECT_EQ(process->wait(30), kExitPeer) << process->output();
  const std::string output = process->output();
  EXPECT_HAS(output,
             str("rank 1 (process ", pid(1), ") is stopped (SIGSTOP, Ctrl-Z or a debugger), at step "));
  EXPECT_HAS(output, "root cause: rank 1 (process ");
  EXPECT_EQ(occurrences(output, "no rank is late"), 0) << output;
  EXPECT_LT(told, 4) << "two seconds where the machine is quiet";
  row({.fault =
           "SIGSTOP of rank 1 of 2 at a random moment, a deadline of 4 s; before it, SIGSTOP and SIGCONT",
       .seen = "rank 1 (process N) is stopped (SIGSTOP, Ctrl-Z or a debugger), at step S; it is not at "
               "all_reduce \"count\" of group "
               "world, where rank 0 waits",
       .code = "75",
       .detected = seconds_text(told),
       .recovered = "goes on when continued; else same command, by itself with --max-restarts",
       .lost = "0; <= 20",
       .same_bits = "yes"});
}

TEST_F(WatchRun, Row06TheLoneRankAndAllRanksStopped) {
  write_tiny();
  for (const char* nproc : {"1", "2"}) {
    std::filesystem::remove_all("runs");
    auto process =
        start({"--nproc", nproc, "--deadline", "3", "--train.device=cpu", "--train.steps=100000", "c.json"});
    ASSERT_TRUE(trains(10)) << process->output();
    for (int rank = 0; rank < std::stoi(nproc); ++rank) kill(pid(rank), SIGSTOP);
    EXPECT_TRUE(said(*process, "is stopped (SIGSTOP, Ctrl-Z or a debugger)", 10)) << process->output();
    EXPECT_EQ(process->wait(30), kExitPeer) << process->output();
    EXPECT_HAS(process->output(), std::string("root cause: ") +
                                      (nproc == std::string("1") ? "rank 0 " : "all 2 ranks are stopped "));
  }
  row({.fault = "SIGSTOP of the only rank of --nproc 1; of all ranks of --nproc 2; a deadline of 3 s",
       .seen = "rank 0 (process N) is stopped (SIGSTOP, Ctrl-Z or a debugger), at step S; all 2 ranks are "
               "stopped (SIGSTOP, Ctrl-Z or a debugger; processes N, M)",
       .code = "75",
       .detected = "1.0 s",
       .recovered = "same command; by itself with --max-restarts",
       .lost = "<= 20",
       .same_bits = "yes"});
}

TEST_F(WatchRun, Row06OneRankSpins) {
  auto process = start({"--nproc", "2", "--deadline", "4,60", GROUP_PROGRAM, "spin", "100"});
  EXPECT_TRUE(said(*process, "rank 1 is late: rank 0 has waited ", 30)) << process->output();
  EXPECT_EQ(process->wait(30), kExitPeer) << process->output();
  EXPECT_HAS(process->output(),
             "in all_reduce \"count\" of group world; rank 1 is at step 99, it computes (");
  EXPECT_HAS(process->output(),
             "root cause: rank 1 did not come to all_reduce \"count\" of group world for 4");
  row({.fault = "rank 1 of a program spins for ever, a deadline of 4 s",
       .seen = "rank 1 is late: rank 0 has waited 1.4 s in all_reduce \"count\" of group world; rank 1 is at "
               "step 99, it computes (1 cores)",
       .code = "75",
       .detected = "< 2 s",
       .recovered = "same command",
       .lost = "-",
       .same_bits = "-"});
}

TEST_F(WatchRun, Row10OneRankIsSlow) {
  write_tiny();
  auto process =
      start({"--nproc", "2", "--train.device=cpu", "--train.steps=100000", "--checkpoint.every=0", "c.json"});
  ASSERT_TRUE(trains(20)) << process->output();
  std::this_thread::sleep_for(std::chrono::seconds(2));
  EXPECT_EQ(occurrences(process->output(), "is slow"), 0) << process->output();
  const int slow = pid(1);
  const double told = seconds_of([&] {
    EXPECT_TRUE(until(40, [&] {
      for (int i = 0; i < 10; ++i) {
        kill(slow, SIGSTOP);
        std::this_thread::sleep_for(std::chrono::milliseconds(45));
        kill(slow, SIGCONT);
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
      return process->output().find("rank 1 is slow: ") != std::string::npos;
    })) << process->output();
  });
  EXPECT_EQ(occurrences(process->output(), "rank 0 is slow"), 0) << process->output();
  EXPECT_HAS(process->output(), " times the median of the other ranks over the last ");
  kill(process->pid(), SIGTERM);
  EXPECT_EQ(process->wait(60), kExitStopped) << process->output();
  const auto lines = metrics("run");
  for (const char* name : {"busy_ms_min", "busy_ms_median", "busy_ms_max", "slowest_rank"})
    EXPECT_FALSE(column(lines, name).empty()) << name;
  row({.fault = "rank 1 of 2 runs 10 % of the time (SIGSTOP 45 ms, SIGCONT 5 ms)",
       .seen = "rank 1 is slow: 10.1 times the median of the other ranks over the last 120 steps (40.2 ms of "
               "its own work a step, the "
               "others 4.0)",
       .code = "0",
       .detected = seconds_text(told),
       .recovered = "goes on; metrics.jsonl has busy_ms_min, busy_ms_median, busy_ms_max and slowest_rank",
       .lost = "0",
       .same_bits = "yes"});
}

TEST_F(WatchRun, Row10AProgramWhoseRankSleeps) {
  auto process = start({"--nproc", "2", GROUP_PROGRAM, "sleep", "0"});
  EXPECT_TRUE(said(*process, "rank 1 is slow: ", 40)) << process->output();
  kill(process->pid(), SIGTERM);
  EXPECT_EQ(process->wait(60), kExitStopped) << process->output();
  row({.fault = "rank 1 of a program sleeps 30 ms a step",
       .seen = "rank 1 is slow: 20.3 times the median of the other ranks over the last 96 steps (31.2 ms of "
               "its own work a step, the "
               "others 1.5)",
       .code = "80 (stopped)",
       .detected = "4 s",
       .recovered = "goes on",
       .lost = "0",
       .same_bits = "yes"});
}

}  // namespace
}  // namespace lockstep::tests
