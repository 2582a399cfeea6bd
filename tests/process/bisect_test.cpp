// trainrun bisect: where two runs part, from their records, and between records by replay.
#include "tests/support/real_run.h"

namespace lockstep::tests {
namespace {

class Bisect : public RealRun {
 protected:
  Result bisect(std::vector<std::string> words) {
    words.insert(words.begin(), "bisect");
    return trainrun(words);
  }
};

TEST_F(Bisect, EqualRunsAreEqual) {
  write_tiny();
  train({"--nproc", "2", "c.json", "--train.steps=40", "--name=a"});
  train({"--nproc", "3", "c.json", "--train.steps=40", "--name=b"});
  const Result same = bisect({"a", "runs/b"});
  EXPECT_EQ(same.code, kExitOk) << same.output;
  EXPECT_EQ(same.output,
            "A: runs/a\nB: runs/b\nequal: 40 steps that both recorded, from step 1 to step 40\n");
  const Result none = bisect({"a", "c"});
  EXPECT_EQ(none.code, kExitUser);
  EXPECT_HAS(none.output, "no run c: ");
}

// One weight decay more: the first row that differs, the key, and the tensors of the first checkpoint.
TEST_F(Bisect, RowsNameTheStepAndKeysTheCause) {
  write_tiny();
  train({"--nproc", "2", "c.json", "--train.steps=40", "--name=a"});
  train({"--nproc", "2", "c.json", "--train.steps=20", "--name=b"});
  train({"--nproc", "2", "c.json", "--train.steps=40", "--name=b", "--optim.weight_decay=0.5"});
  const Result told = bisect({"a", "b"});
  EXPECT_EQ(told.code, 1) << told.output;
  EXPECT_TRUE(std::regex_search(
      told.output,
      std::regex("equal up to step 21; the first difference is at step 22\n  of step 22 +A +B\n  "
                 "loss +[0-9.]+ +[0-9.]+\n")))
      << told.output;
  EXPECT_HAS(told.output, "configs differ: optim.weight_decay 0.1 and 0.5");
  EXPECT_HAS(told.output,
             "\nthe first checkpoint of both that differs, of step 40:\nA: runs/a/ckpt/step-40\n");
  EXPECT_HAS(told.output, "\nfirst: step 40, ");
  EXPECT_HAS(told.output, "trainrun bisect --replay computes the steps before it again; ");
}

// Rows each 15 steps: the step between them comes from replays.
TEST_F(Bisect, ReplayFindsTheStepBetweenRecords) {
  write_tiny();
  const std::vector<std::string> seldom = {"--nproc", "2", "c.json", "--log.every=15",
                                           "--checkpoint.every=20"};
  auto run = [&](const std::string& name, int64_t steps, const std::string& key) {
    auto words = seldom;
    words.insert(words.end(), {"--name=" + name, str("--train.steps=", steps)});
    if (!key.empty()) words.push_back(key);
    train(words);
  };
  run("a", 45, "");
  run("b", 20, "");
  run("b", 45, "--optim.weight_decay=0.5");
  const Result told = bisect({"a", "b", "--replay"});
  EXPECT_EQ(told.code, 1) << told.output;
  EXPECT_HAS(told.output, "equal up to step 20; the first difference is at step 30\n");
  EXPECT_HAS(told.output,
             "\nreplayed from runs/a/ckpt/step-20 and from runs/b/ckpt/step-20 to step 30\nstep 22 is the "
             "first that "
             "comes out otherwise\n");
  EXPECT_TRUE(std::regex_search(
      told.output,
      std::regex("after step 21 the states differ, first in [a-z_0-9.]+ \\(\\d+ of 84 tensors\\)\n")))
      << told.output;
  run("c", 20, "");
  const Result few = bisect({"a", "c", "--replay"});
  EXPECT_EQ(few.code, kExitOk) << few.output;
  EXPECT_HAS(few.output, "equal: 3 steps that both recorded, from step 1 to step 20\n");
}

TEST_F(Bisect, RunsWithoutACommonStepAreRefused) {
  write_tiny();
  train({"--nproc", "1", "c.json", "--train.steps=4", "--name=a", "--log.every=2"});
  train({"--nproc", "1", "c.json", "--train.steps=5", "--name=b", "--log.every=5"});
  scratch_.write("runs/a/metrics.jsonl", std::string());
  const Result result = bisect({"a", "b"});
  EXPECT_EQ(result.code, kExitUser) << result.output;
  EXPECT_EQ(
      result.output,
      "trainrun: runs/a and runs/b have recorded no step in common: they have rows up to step 4 and 5, by "
      "log.every and checkpoint.every\n");
}

}  // namespace
}  // namespace lockstep::tests
