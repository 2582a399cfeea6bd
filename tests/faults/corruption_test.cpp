// Ranks that compute wrong: found by recomputation, told apart, left out.
#include "tests/faults/fault_run.h"

namespace lockstep::tests {
namespace {

using Words = std::vector<std::string>;

class Corruption : public FaultRun {
 protected:
  void SetUp() override {
    FaultRun::SetUp();
    write_tiny();
  }
  // On `nproc` ranks ("3", "2:3"), compared every ten steps.
  Words on(const std::string& nproc, const std::string& name, const Words& more = {}) {
    Words out = {
        "--nproc", nproc, "--train.device=cpu", "c.json", "--name=" + name, "--verify.recompute_every=10"};
    out.insert(out.end(), more.begin(), more.end());
    return out;
  }
};
using FaultCorruption = Corruption;

TEST_F(FaultCorruption, Row34ARankThatComputesWrong) {
  train({"--nproc", "3", "--train.device=cpu", "c.json", "--name=quiet"});
  // It changes no bit of a run in which nothing is wrong.
  train(on("3", "watched"));
  EXPECT_EQ(final_hash("watched"), final_hash("quiet"));
  // Nothing else sees it: the replicas stay alike, and the weights are wrong.
  const Variables wrong = {{"LOCKSTEP_FAULT", "wrong:rank=1,step=45"}};
  train({"--nproc", "3", "--train.device=cpu", "c.json", "--name=unseen"}, wrong);
  EXPECT_NE(final_hash("unseen"), final_hash("quiet"));

  Result result = trainrun(on("3", "told", {"--max-restarts", "3"}), wrong);
  EXPECT_EQ(result.code, kExitPeer) << result.output;
  EXPECT_HAS(
      result.output,
      "root cause: PeerError at step 50: corruption: micro-batch 5 (lane 5) of step 50 does not come out "
      "alike where all ranks compute it: ");
  EXPECT_HAS(result.output, " on rank 1, ");
  EXPECT_HAS(result.output, " on ranks 0 and 2; asked again: ");
  EXPECT_HAS(result.output, "; rank 1 (on ");
  EXPECT_HAS(result.output,
             ") computed wrong both times: persistent corruption; all were alike at step 40. No "
             "checkpoint holds what was computed since then: ranks are compared before each save. "
             "Take the host or the device out (trainrun doctor looks at it), and the same command "
             "goes on from the last one; verify.on_corruption=leave_out does so by itself");
  EXPECT_EQ(result.output.find("restart 1 of"), std::string::npos) << result.output;
  EXPECT_EQ(checkpoints("told").back(), "step-40");
  train({"--nproc", "2", "--train.device=cpu", "c.json", "--name=told"});  // the healthy ones
  EXPECT_EQ(final_hash("told"), final_hash("quiet"));

  result = trainrun(on("2:3", "left", {"--verify.on_corruption=leave_out"}), wrong);
  EXPECT_EQ(result.code, 0) << result.output;
  EXPECT_HAS(result.output, ". The run goes on from the last one, without this rank (verify.on_corruption)");
  EXPECT_HAS(result.output, "goes on without rank 1, from the last checkpoint, with 2 ranks (3 before)");
  EXPECT_EQ(final_hash("left"), final_hash("quiet"));
  row({.fault = "rank 1 computes other gradients from step 45 on; verify.recompute_every=10",
       .seen = "root cause: PeerError at step 50: corruption: micro-batch 5 (lane 5) of step 50 does "
               "not come "
               "out alike where all ranks compute it: ... on rank 1, ... on ranks 0 and 2; asked again: ...; "
               "rank 1 "
               "(on HOST, GPU) computed wrong both times: persistent corruption",
       .code = "75; 0 with verify.on_corruption=leave_out",
       .detected = "<= verify.recompute_every, and before each save",
       .recovered = "same command without the host; by itself with leave_out and --nproc 2:3",
       .lost = "<= checkpoint.every",
       .same_bits = "yes"});
}

TEST_F(FaultCorruption, Row34AStateIsComparedBeforeItIsSaved) {
  const Words seldom = {"--verify.recompute_every=1000"};
  const Result result = trainrun(on("3", "run", seldom), {{"LOCKSTEP_FAULT", "wrong:rank=2,step=45"}});
  EXPECT_EQ(result.code, kExitPeer) << result.output;
  EXPECT_HAS(result.output, "corruption: micro-batch 0 (lane 0) of step 60 does not come out alike");
  EXPECT_HAS(result.output, "all were alike at step 40");
  EXPECT_EQ(checkpoints("run").back(), "step-40");
  row({.fault = "rank 2 of 3 computes wrong, compared at saves alone (verify.recompute_every=1000)",
       .seen = "root cause: PeerError at step 60: corruption: ...; all were alike at step 40",
       .code = "75",
       .detected = "before the save",
       .recovered = "same command without the host",
       .lost = "<= checkpoint.every",
       .same_bits = "no checkpoint holds wrong bits"});
}

TEST_F(FaultCorruption, Row34ABitThatFlipsOnce) {
  train({"--nproc", "3", "--train.device=cpu", "c.json", "--name=quiet"});
  const Variables glitch = {{"LOCKSTEP_FAULT", "glitch:rank=0,step=50"}};
  Result result = trainrun(on("3", "run"), glitch);
  EXPECT_EQ(result.code, kExitPeer) << result.output;
  EXPECT_HAS(result.output, " on ranks 0, 1 and 2; rank 0 (on ");
  EXPECT_HAS(result.output, ") computed wrong once, and right when asked again: transient corruption");
  train(on("3", "run"));
  EXPECT_EQ(final_hash("run"), final_hash("quiet"));
  // Two ranks know who has changed its mind.
  result = trainrun(on("2", "warned", {"--verify.on_corruption=warn"}), glitch);
  EXPECT_EQ(result.code, 0) << result.output;
  EXPECT_HAS(result.output, "; rank 0 (on ");
  EXPECT_HAS(result.output, "transient corruption");
  EXPECT_HAS(result.output, "; the run goes on (verify.on_corruption is warn)");
  EXPECT_EQ(final_hash("warned"), final_hash("quiet"));
  row({.fault = "rank 0 computes another gradient once",
       .seen = "root cause: ...; rank 0 (on HOST, GPU) computed wrong once, and right when asked again: "
               "transient "
               "corruption",
       .code = "75; 0 with verify.on_corruption=warn",
       .detected = "the same step, where it is in what is compared",
       .recovered = "same command",
       .lost = "<= checkpoint.every",
       .same_bits = "yes"});
}

TEST_F(FaultCorruption, Row34TwoRanksCannotTellWhichIsWrong) {
  const Result result = trainrun(on("1:2", "run", {"--verify.on_corruption=leave_out"}),
                                 {{"LOCKSTEP_FAULT", "wrong:rank=1,step=45"}});
  EXPECT_EQ(result.code, kExitPeer) << result.output;
  EXPECT_HAS(result.output, "; rank 0 (on ");
  EXPECT_HAS(result.output, ") and rank 1 (on ");
  EXPECT_HAS(result.output,
             ") stay with what they say, and two data ranks cannot tell which of them computes wrong; "
             "three can: persistent corruption on one of them");
  EXPECT_HAS(result.output,
             "verify.on_corruption leaves nobody out: whom is not known. Take the host or the "
             "device out, and give the same command");
  EXPECT_EQ(checkpoints("run").back(), "step-40");
  row({.fault = "one of two ranks computes wrong each time",
       .seen = "root cause: ...; rank 0 (...) and rank 1 (...) stay with what they say, and two data ranks "
               "cannot tell "
               "which of them computes wrong; three can",
       .code = "75",
       .detected = "<= verify.recompute_every",
       .recovered = "same command without one of the hosts",
       .lost = "<= checkpoint.every",
       .same_bits = "no checkpoint holds wrong bits"});
}

TEST_F(FaultCorruption, Row34TooFewRanksAreLeft) {
  const Result result = trainrun(on("3", "run", {"--verify.on_corruption=leave_out"}),
                                 {{"LOCKSTEP_FAULT", "wrong:rank=1,step=45"}});
  EXPECT_EQ(result.code, kExitPeer) << result.output;
  EXPECT_HAS(result.output,
             "cannot go on without rank 1: too few ranks would be left of 3 ranks; --min-nproc N "
             "allows as few as N, and on several hosts a spare host may take the place");
  const Result threads = trainrun({"--simulate", "3", "--train.device=cpu", "c.json", "--name=threads",
                                   "--verify.recompute_every=10", "--verify.on_corruption=leave_out"},
                                  {{"LOCKSTEP_FAULT", "wrong:rank=1,step=45"}});
  EXPECT_EQ(threads.code, kExitPeer) << threads.output;
  EXPECT_HAS(threads.output, "; rank 1 (on ");
  EXPECT_HAS(threads.output,
             "--simulate leaves no rank out: they are threads of this process; --nproc starts others");
  const Result alone = trainrun(on("1", "alone", {"--train.steps=20"}));
  EXPECT_EQ(alone.code, 0) << alone.output;
  EXPECT_HAS(alone.output,
             "verify.recompute_every compares nothing here: one data rank has no other to compare with");
  row({.fault = "rank 1 of 3 computes wrong, leave_out without --min-nproc",
       .seen = "cannot go on without rank 1: too few ranks would be left of 3 ranks; --min-nproc N allows as "
               "few as N",
       .code = "75",
       .detected = "<= verify.recompute_every",
       .recovered = "same command with --nproc 2:3",
       .lost = "<= checkpoint.every",
       .same_bits = "no checkpoint holds wrong bits"});
}

// A checkpoint in memory may be of a step behind the last comparison: it is not gone on from.
TEST_F(FaultCorruption, Row34WhatMemoryHoldsIsNotGoneOnFrom) {
  train({"--nproc", "3", "--train.device=cpu", "c.json", "--name=quiet"});
  const Result result =
      trainrun(on("2:3", "run", {"--verify.on_corruption=leave_out", "--checkpoint.memory_every=1"}),
               {{"LOCKSTEP_FAULT", "wrong:rank=1,step=45"}});
  EXPECT_EQ(result.code, 0) << result.output;
  EXPECT_HAS(result.output, "goes on without rank 1, from the last checkpoint, with 2 ranks (3 before)");
  EXPECT_EQ(final_hash("run"), final_hash("quiet"));
  row({.fault = "rank 1 of 3 computes wrong, with leave_out and checkpoint.memory_every=1",
       .seen = "goes on without rank 1, from the last checkpoint, with 2 ranks (3 before)",
       .code = "0",
       .detected = "<= verify.recompute_every",
       .recovered = "by itself, from the disk: what memory holds is removed",
       .lost = "<= checkpoint.every",
       .same_bits = "yes"});
}

// What memory holds may come to the disk when a run fails: so it was compared, too.
TEST_F(FaultCorruption, Row34WhatMemoryHoldsWasCompared) {
  const Result result =
      trainrun(on("2", "run", {"--checkpoint.memory_every=1"}), {{"LOCKSTEP_FAULT", "wrong:rank=1,step=45"}});
  EXPECT_EQ(result.code, kExitPeer) << result.output;
  EXPECT_HAS(result.output, " of step 45 does not come out alike where all ranks compute it");
  EXPECT_HAS(result.output, "; all were alike at step 44");
  EXPECT_EQ(checkpoints("run"), (Words{"step-20", "step-40"}));
}

}  // namespace
}  // namespace lockstep::tests
