// A rank that stands still: the supervisor names it, its place and the collective long before the deadline ends the run.
#include "tests/support/real_run.h"

namespace lockstep::tests {
namespace {

class LateRank : public RealRun {};

TEST_F(LateRank, IsNamedAfterAThirdOfTheDeadline) {
  write_tiny();
  auto process =
      start({"--nproc", "2", "--train.device=cpu", "c.json"}, {{"LOCKSTEP_FAULT", "hang:rank=1,step=4"}, {"LOCKSTEP_DEADLINE", "6"}});
  EXPECT_TRUE(until(30, [&] { return process->output().find("rank 1 is late") != std::string::npos; })) << process->output();
  const std::string early = process->output();
  EXPECT_EQ(occurrences(early, "root cause"), 0) << early;
  EXPECT_HAS(early, "trainrun: rank 1 is late: rank 0 has waited 2");
  EXPECT_HAS(early, " of group world; rank 1 is at step 4; they give up after 6 s (LOCKSTEP_DEADLINE)\n");
  EXPECT_EQ(process->wait(30), kExitPeer) << process->output();
  EXPECT_EQ(occurrences(process->output(), "rank 1 is late"), 1) << process->output();
  EXPECT_EQ(occurrences(process->output(), "goes on"), 0) << process->output();
}

}  // namespace
}  // namespace lockstep::tests
