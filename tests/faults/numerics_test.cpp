// Faults of numbers: NaN and infinity, flipped bits, spikes; and what must change no bit.
#include <set>
#include <sstream>

#include "tests/faults/fault_run.h"

namespace lockstep::tests {
namespace {

using Words = std::vector<std::string>;
Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}
const Words kTwo = {"--nproc", "2", "--train.device=cpu", "c.json"};

// The first line of an output that has `part` in it.
std::string line_with(const std::string& output, const std::string& part) {
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);)
    if (line.find(part) != std::string::npos) return line;
  return "no line with " + part;
}

TEST_F(FaultRun, Row33AnUpdateThatOverflowsIsNotSaved) {
  write_tiny();
  for (const char* nproc : {"1", "2"}) {
    const Result result = trainrun({"--nproc", nproc, "--train.device=cpu", "c.json", "--optim.lr=1e38",
                                    "--optim.schedule.warmup=0", "--checkpoint.every=1"});
    EXPECT_EQ(result.code, 2) << result.output;
    EXPECT_HAS(result.output, "step 1: the state after step 1 is not saved: token.weight[0,0] is ");
    EXPECT_HAS(result.output, " more values of the state; the checkpoints in ");
    EXPECT_EQ(checkpoints("run"), Words{});
  }
  row({.fault = "lr 1e38: the update overflows, loss and norm of its step do not",
       .seen = "step 1: the state after step 1 is not saved: token.weight[0,0] is -inf, and so are ... more "
               "values of the state",
       .code = "2",
       .detected = "at the save",
       .recovered = "the last checkpoint is whole; train.on_nonfinite=rewind goes on from it",
       .lost = "0",
       .same_bits = "no wrong bits are kept"});
}

TEST_F(FaultRun, Row33TheFirstBadValueIsNamed) {
  write_tiny();
  std::set<std::string> said;
  for (const char* nproc : {"2", "3"}) {
    const Result result =
        trainrun({"--nproc", nproc, "--train.device=cpu", "c.json", "--verify.replicas_every=0"},
                 {{"LOCKSTEP_FAULT", "burst:rank=1,step=30"}});
    EXPECT_EQ(result.code, 2) << result.output;
    EXPECT_HAS(result.output, "step 30: the loss is ");
    EXPECT_HAS(result.output,
               "; the last checkpoint is untouched. Lower optim.lr, or clip more (optim.clip)");
    EXPECT_EQ(checkpoints("run"), Words{"step-20"});
    std::filesystem::remove_all("runs/run");
  }
  // A weight that is too large on every rank: the same op, line and micro-batch are named on any number of
  // ranks.
  for (const char* nproc : {"1", "2", "3"}) {
    const Result result = trainrun(
        {"--nproc", nproc, "--train.device=cpu", "c.json", "--optim.lr=1e30", "--optim.schedule.warmup=0"});
    EXPECT_EQ(result.code, 2) << result.output;
    const std::string line =
        line_with(result.output, "the first value that is not finite: in micro-batch 0 (rank 0), ");
    EXPECT_HAS(line, "gpt.cpp:");
    EXPECT_HAS(line, "step 2: ");
    said.insert(line.substr(line.find("step 2: the loss")));
  }
  EXPECT_EQ(said.size(), 1u);
  row({.fault = "lr 1e30: the forward pass of step 2 overflows",
       .seen = "step 2: the loss is nan and the gradient norm is nan; the first value that is not finite: in "
               "micro-batch 0 (rank 0), mul "
               "at gpt.cpp:31 (blocks.0.norm1) gives inf",
       .code = "2",
       .detected = "the same step, before its update",
       .recovered = "same command with another lr",
       .lost = "to the last checkpoint",
       .same_bits = "the update is not made"});
}

TEST_F(FaultRun, Row33AStepIsSkipped) {
  write_tiny();
  const Words skip = {"--train.on_nonfinite=skip", "--verify.replicas_every=0"};
  train(with({"--nproc", "2", "--train.device=cpu", "c.json", "--name=two"}, skip),
        {{"LOCKSTEP_FAULT", "burst:rank=1,step=30"}});
  train(with({"--nproc", "4", "--train.device=cpu", "c.json", "--name=four"}, skip),
        {{"LOCKSTEP_FAULT", "burst:rank=3,step=30"}});
  EXPECT_EQ(final_hash("two"), final_hash("four"));
  EXPECT_EQ(column(metrics("two"), "passed_over").front(), "30 1");
  EXPECT_EQ(column(metrics("two"), "passed_over").back(), "100 1");
  // Too many in a row end the run.
  const Result result =
      trainrun({"--nproc", "2", "--train.device=cpu", "c.json", "--optim.lr=1e30",
                "--optim.schedule.warmup=0", "--train.on_nonfinite=skip", "--train.nonfinite_limit=4"});
  EXPECT_EQ(result.code, 2) << result.output;
  EXPECT_HAS(result.output, "step 2 is passed over: the loss is ");
  EXPECT_HAS(result.output, "step 6: the loss is ");
  EXPECT_HAS(result.output, "; 4 steps before it were passed over (train.nonfinite_limit)");
  row({.fault = "a NaN in one step, train.on_nonfinite=skip",
       .seen = "step 30 is passed over: the loss is nan and the gradient norm is nan; the first value that "
               "is not finite: in micro-batch ...",
       .code = "0; 2 after train.nonfinite_limit steps in a row",
       .detected = "the same step, before its update",
       .recovered = "by itself",
       .lost = "the step",
       .same_bits = "the same on 2 and 4 ranks"});
}

TEST_F(FaultRun, Row33TheRunGoesBack) {
  write_tiny();
  const Words rewind = {"--train.on_nonfinite=rewind", "--verify.replicas_every=0"};
  const Variables fault = {{"LOCKSTEP_FAULT", "burst:rank=1,step=30"}};
  const Result result =
      trainrun(with({"--nproc", "2", "--train.device=cpu", "c.json", "--name=two"}, rewind), fault);
  EXPECT_EQ(result.code, 0) << result.output;
  EXPECT_HAS(result.output, "/ckpt/step-20: steps 21 to 30 are passed over");
  train(with({"--nproc", "3", "--train.device=cpu", "c.json", "--name=three"}, rewind), fault);
  EXPECT_EQ(final_hash("two"), final_hash("three"));
  // Stopped behind it and resumed: what was passed over is in the checkpoint.
  train(with({"--nproc", "2", "--train.device=cpu", "c.json", "--name=part", "--train.steps=50"}, rewind),
        fault);
  train(with({"--nproc", "4", "--train.device=cpu", "c.json", "--name=part"}, rewind));
  EXPECT_EQ(final_hash("two"), final_hash("part"));
  EXPECT_EQ(column(metrics("part"), "passed_over").back(), "100 10");
  // An update that overflowed is gone back from, too; the limit ends it.
  const Result limit =
      trainrun(with(kTwo, {"--optim.lr=1e38", "--optim.schedule.warmup=0", "--checkpoint.every=1",
                           "--train.on_nonfinite=rewind", "--train.nonfinite_limit=2"}));
  EXPECT_EQ(limit.code, 2) << limit.output;
  EXPECT_HAS(limit.output, "the run has gone back to the same checkpoint 2 times (train.nonfinite_limit)");
  row({.fault = "a NaN in one step, train.on_nonfinite=rewind",
       .seen = "step 30: the loss is nan ...; going on behind it from the state of runs/run/ckpt/step-20: "
               "steps 21 to 30 are passed over",
       .code = "0; 2 after train.nonfinite_limit times to one checkpoint",
       .detected = "the same step, before its update",
       .recovered = "by itself",
       .lost = "<= checkpoint.every",
       .same_bits = "the same on 2, 3 and 4 ranks, and resumed"});
}

TEST_F(FaultRun, Row34AFlippedBit) {
  write_tiny();
  train(with(kTwo, {"--name=whole"}));
  Result result = trainrun({"--nproc", "3", "--train.device=cpu", "c.json", "--name=three"},
                           {{"LOCKSTEP_FAULT", "flip:rank=1,step=50"}});
  EXPECT_EQ(result.code, kExitPeer) << result.output;
  EXPECT_HAS(result.output,
             "the replicas of the state differ at step 50 (they were alike at step 49): token.weight on rank "
             "1 is not what it is on ranks 0, 2");
  result = trainrun(with(kTwo, {"--checkpoint.async=false"}), {{"LOCKSTEP_FAULT", "flip:rank=1,step=50"}});
  EXPECT_EQ(result.code, kExitPeer) << result.output;
  EXPECT_HAS(
      result.output,
      "token.weight is not the same on ranks 0, 1, and there are too few ranks to tell which is wrong");
  EXPECT_EQ(checkpoints("run").back(), "step-40");
  // An exponent that flips gives a loss that is not finite: it is the memory that is blamed.
  result = trainrun({"--nproc", "3", "--train.device=cpu", "c.json", "--name=high"},
                    {{"LOCKSTEP_FAULT", "burst:rank=2,step=50"}});
  EXPECT_EQ(result.code, kExitPeer) << result.output;
  EXPECT_HAS(result.output, "token.weight on rank 2 is not what it is on ranks 0, 1");
  // A flip in a step that is saved reaches no checkpoint; restarted, the run ends as if nothing had been.
  train(with(kTwo, {"--name=restarted", "--max-restarts", "1"}), {{"LOCKSTEP_FAULT", "flip:rank=0,step=60"}});
  EXPECT_EQ(final_hash("restarted"), final_hash("whole"));
  row({.fault = "a bit of a replicated weight flipped in rank 1's memory",
       .seen = "root cause: rank 0: PeerError at step 51: the replicas of the state differ at step 50 (they "
               "were alike at step 49): "
               "token.weight on rank 1 is not what it is on ranks 0, 2",
       .code = "75",
       .detected = "one step (verify.replicas_every)",
       .recovered = "same command; by itself with --max-restarts",
       .lost = "< 2 x checkpoint.every",
       .same_bits = "yes"});
}

TEST_F(FaultRun, Row35ASpike) {
  write_tiny();
  const Words one = {"--nproc", "1", "--train.device=cpu", "c.json"};
  Result result = trainrun(with(one, {"--name=told"}), {{"LOCKSTEP_FAULT", "spike:rank=0,step=50"}});
  EXPECT_EQ(result.code, 0) << result.output;
  EXPECT_HAS(result.output, "step 50: ");
  EXPECT_HAS(result.output, " times its median of the last 49 steps");
  result = trainrun(with(one, {"--name=stopped", "--train.on_spike=stop"}),
                    {{"LOCKSTEP_FAULT", "spike:rank=0,step=50"}});
  EXPECT_EQ(result.code, 2) << result.output;
  train(with(one, {"--name=back", "--train.on_spike=rewind"}), {{"LOCKSTEP_FAULT", "spike:rank=0,step=50"}});
  EXPECT_EQ(column(metrics("back"), "passed_over").front(), "50 10");
  // What is usual for one run is a spike by a stricter rule: the same steps are passed over on any number of
  // ranks, and when it is resumed.
  const Words strict = {"--train.on_spike=skip", "--train.spike_factor=1.02", "--train.spike_window=8",
                        "--train.nonfinite_limit=50"};
  for (const char* nproc : {"1", "2", "4"})
    train(with({"--nproc", nproc, "--train.device=cpu", "c.json", str("--name=skip", nproc)}, strict));
  EXPECT_FALSE(column(metrics("skip1"), "passed_over").empty());
  EXPECT_EQ(column(metrics("skip1"), "passed_over"), column(metrics("skip2"), "passed_over"));
  EXPECT_EQ(final_hash("skip1"), final_hash("skip2"));
  EXPECT_EQ(final_hash("skip1"), final_hash("skip4"));
  train(with({"--nproc", "2", "--train.device=cpu", "c.json", "--name=part", "--train.steps=47"}, strict));
  train(with({"--nproc", "1", "--train.device=cpu", "c.json", "--name=part"}, strict));
  EXPECT_EQ(final_hash("skip1"), final_hash("part"));
  row({.fault = "one weight times 1e6",
       .seen = "step 50: the gradient norm is ..., ... times its median of the last 49 steps",
       .code = "0; 2 with train.on_spike=stop",
       .detected = "the same step; with skip, rewind or stop before its update",
       .recovered = "train.on_spike=rewind",
       .lost = "<= checkpoint.every",
       .same_bits = "the same on 1, 2 and 4 ranks, and resumed"});
}

TEST_F(FaultRun, Row36RankCounts) {
  write_tiny();
  for (const char* nproc : {"1", "2", "3", "4"})
    train({"--nproc", nproc, "--train.device=cpu", "c.json", str("--name=on", nproc)});
  train({"--simulate", "4", "--train.device=cpu", "c.json", "--name=threads"});
  train({"--nproc", "4", "--train.device=cpu", "c.json", "--name=resumed", "--train.steps=30"});
  train({"--nproc", "3", "--train.device=cpu", "c.json", "--name=resumed", "--train.steps=60"});
  train({"--nproc", "1", "--train.device=cpu", "c.json", "--name=resumed"});
  for (const char* name : {"on2", "on3", "on4", "threads", "resumed"})
    EXPECT_EQ(final_hash("on1"), final_hash(name)) << name;
  row({.fault = "1, 2, 3 and 4 ranks, ranks as threads, resumed on 3 and 1 ranks",
       .seen = "nothing",
       .code = "0",
       .lost = "0",
       .same_bits = "yes"});
}

TEST_F(FaultRun, Row37ThreadsAndInstructionSets) {
  write_tiny();
  const Words one = {"--nproc", "1", "--train.device=cpu", "c.json", "--train.steps=40"};
  train(with(one, {"--name=plain"}));
  int number = 0;
  auto same = [&](const Words& words, const Variables& variables) {
    const std::string name = str("run", ++number);
    train(with(with(one, {"--name=" + name}), words), variables);
    EXPECT_EQ(final_hash("plain"), final_hash(name))
        << join(words, " ")
        << (variables.empty() ? "" : variables.begin()->first + "=" + variables.begin()->second);
  };
  for (const char* threads : {"1", "3"}) same({str("--compile.threads=", threads)}, {});
  for (const char* threads : {"1", "4"}) same({}, {{"OMP_NUM_THREADS", threads}});
  same({}, {{"OMP_DYNAMIC", "true"}});
  same({}, {{"OMP_SCHEDULE", "dynamic,1"}});
  same({}, {{"LOCKSTEP_ISA", "plain"}});
  if (file_text("/proc/cpuinfo").find(" avx2") != std::string::npos) same({}, {{"LOCKSTEP_ISA", "avx2"}});
  same({}, {{"MALLOC_PERTURB_", "165"}});
  row({.fault = "threads, OMP_*, instruction sets, malloc perturbed",
       .seen = "nothing",
       .code = "0",
       .lost = "0",
       .same_bits = "yes"});
}

}  // namespace
}  // namespace lockstep::tests
