// A rank that stands still: the supervisor names it, its place and the collective long before the deadline,
// and ends the run for it then.
#include <sys/stat.h>

#include "tests/support/real_run.h"

namespace lockstep::tests {
namespace {

class LateRank : public RealRun {};

TEST_F(LateRank, IsNamedSoonAndEndsTheRunAtTheDeadline) {
  write_tiny();
  auto process = start({"--nproc", "2", "--train.device=cpu", "c.json"},
                       {{"LOCKSTEP_FAULT", "hang:rank=1,step=4"}, {"LOCKSTEP_DEADLINE", "6"}});
  EXPECT_TRUE(until(30, [&] { return process->output().find("is stopped") != std::string::npos; }))
      << process->output();
  const std::string early = process->output();
  EXPECT_EQ(occurrences(early, "root cause"), 0) << early;
  EXPECT_HAS(early, "trainrun: rank 1 (process ");
  EXPECT_HAS(early, ") is stopped (SIGSTOP, Ctrl-Z or a debugger), at step 4");
  EXPECT_HAS(
      early,
      " of group world, where rank 0 waits; the run ends if it does not go on within 6 s (watch.deadline)\n");
  EXPECT_EQ(process->wait(30), kExitPeer) << process->output();
  EXPECT_HAS(process->output(), "trainrun: root cause: rank 1 (process ");
  EXPECT_EQ(occurrences(process->output(), "is stopped"), 2) << process->output();
  EXPECT_EQ(occurrences(process->output(), "is late"), 0) << process->output();
  EXPECT_EQ(occurrences(process->output(), "goes on"), 0) << process->output();
  // What the ranks were at is still there, for people too.
  const Result flight = trainrun({"flight", "runs/run/logs/attempt-1"});
  EXPECT_EQ(flight.code, kExitOk) << flight.output;
  EXPECT_HAS(flight.output, "rank 1 (pid ");
  EXPECT_HAS(flight.output, "): step 4, ");
  EXPECT_HAS(flight.output, "world[0/2] #");
}

// A program's rank that stands still before it has joined: there is nothing of it but its process.
TEST_F(LateRank, IsNamedBeforeItHasBegun) {
  scratch_.write("stands.sh", std::string("#!/bin/sh\n[ $RANK = 0 ] || kill -STOP $$\nexec sleep 60\n"));
  chmod("stands.sh", 0700);
  auto process = start({"--nproc", "2", "--deadline", "3,4", "./stands.sh"});
  EXPECT_EQ(process->wait(30), kExitPeer) << process->output();
  EXPECT_HAS(process->output(),
             ") is stopped (SIGSTOP, Ctrl-Z or a debugger), before it has begun; the run ends if "
             "it does not go on within 4 s (watch.start_deadline)\n");
  EXPECT_HAS(process->output(), "root cause: rank 1 (process ");
}

}  // namespace
}  // namespace lockstep::tests
