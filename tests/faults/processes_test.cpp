// Faults of processes: ranks, the launcher below, trainrun itself.
#include "tests/faults/fault_run.h"

namespace lockstep::tests {
namespace {

TEST_F(FaultRun, Row01OneRankKilled) {
  write_tiny();
  train({"--nproc", "2", "--train.device=cpu", "--name=whole", "c.json"});
  const std::vector<std::string> words = {"--nproc", "2", "--train.device=cpu", "c.json"};
  const Result killed = trainrun(words, {{"LOCKSTEP_FAULT", "kill:rank=1,step=50"}});
  EXPECT_EQ(killed.code, kExitPeer) << killed.output;
  EXPECT_HAS(killed.output, "root cause: rank 1 died: SIGKILL (9)");
  train(words);
  EXPECT_EQ(final_hash("run"), final_hash("whole"));
  row({.fault = "kill -9 of rank 1 of 2, step 50, a checkpoint every 20 steps",
       .seen = "root cause: rank 1 died: SIGKILL (9), perhaps out of memory, or killed by the administrator; step 50",
       .code = "75",
       .detected = "at once",
       .recovered = "same command, on any number of ranks; by itself with --max-restarts",
       .lost = "<= 20",
       .same_bits = "yes"});
}

}  // namespace
}  // namespace lockstep::tests
