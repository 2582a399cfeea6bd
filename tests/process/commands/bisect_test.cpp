// trainrun bisect: where two runs part, from their records, and between records by replay.
#include <regex>

#include "tests/support/real_run.h"

namespace lockstep::tests {
namespace {

class Bisect : public RealRun {
 protected:
  Result bisect(std::vector<std::string> words) {
    words.insert(words.begin(), "bisect");
    return trainrun(words);
  }
  // A whole line of the output, as a regular expression.
  static void expect_line(const Result& result, const std::string& line) {
    EXPECT_TRUE(std::regex_search(result.output, std::regex("(^|\\n)" + line + "\\n")))
        << "missing: " << line << "\nin:\n"
        << result.output;
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

// What cannot be read of the rows is told, and the others are compared.
TEST_F(Bisect, DamagedRowsAreCounted) {
  write_tiny();
  for (const char* name : {"a", "b"}) train({"c.json", "--train.steps=6", str("--name=", name)});
  std::string rows = file_text("runs/b/metrics.jsonl");
  rows.insert(rows.find("{\"step\": 3"), "{\"step\": 3, \"lo\n[1]\n");
  scratch_.write("runs/b/metrics.jsonl", rows + "{\"step\": 7, \"lo");  // as a run is just writing it
  const Result told = bisect({"a", "b"});
  EXPECT_EQ(told.code, kExitOk) << told.output;
  EXPECT_HAS(told.output,
             "trainrun: warning: runs/b/metrics.jsonl: 2 of 8 rows are damaged and passed over, the first in "
             "line 3\n");
  EXPECT_HAS(told.output, "equal: 6 steps that both recorded, from step 1 to step 6\n");
  std::filesystem::remove("runs/b/metrics.jsonl");
  std::filesystem::create_directory("runs/b/metrics.jsonl");
  const Result unread = bisect({"a", "b"});
  EXPECT_EQ(unread.code, kExitUser) << unread.output;
  EXPECT_HAS(unread.output,
             "runs/b/metrics.jsonl cannot be read: it is a folder, not a plain file; it must be a file that "
             "you may read");
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
  expect_line(told,
              "after step 21 the states differ, first in [a-z_0-9.]+ \\[[0-9,]+\\]: [-0-9.e]+ and "
              "[-0-9.e]+ \\(\\d+ of 84 tensors\\)");
  expect_line(told, "before step 21 the states are the same, tensor by tensor; the step itself differs");
  expect_line(told,
              "the steps are not the same graph: behind \\d+ equal values A computes adamw at [^ ]+"
              ".*, of [a-z_0-9.]+, adamw \\{.*weight_decay=0.1.*\\}");
  expect_line(told, "  and B adamw at .*, of [a-z_0-9.]+, adamw \\{.*weight_decay=0.5.*\\}");
  run("c", 20, "");
  const Result few = bisect({"a", "c", "--replay"});
  EXPECT_EQ(few.code, kExitOk) << few.output;
  EXPECT_HAS(few.output, "equal: 3 steps that both recorded, from step 1 to step 20\n");
}

// From a common checkpoint on, another sequence of tokens, another rate, another loss.
TEST_F(Bisect, ReplayNamesTheFieldTheRateAndTheOp) {
  write_tiny();
  const std::vector<std::string> both = {"--nproc", "2", "c.json"};
  auto run = [&](const std::string& name, int64_t steps, const std::string& key) {
    auto words = both;
    words.insert(words.end(), {"--name=" + name, str("--train.steps=", steps)});
    if (!key.empty()) words.push_back(key);
    train(words);
  };
  std::string tokens = file_text("tokens.bin");
  for (size_t at = 0; at < tokens.size(); at += 2) tokens[at] ^= 1;
  scratch_.write("other.bin", std::vector<char>(tokens.begin(), tokens.end()));
  run("a", 25, "");
  for (const auto& [name, key] :
       std::vector<std::pair<std::string, std::string>>{{"data", "--data.paths=[\"other.bin\"]"},
                                                        {"rate", "--optim.lr=2e-2"},
                                                        {"loss", "--task.label_smoothing=0.1"}}) {
    run(name, 20, "");
    run(name, 25, key);
  }
  for (const char* nproc : {"1", "2"}) {
    const Result data = bisect({"a", "data", "--replay", "--nproc", nproc});
    EXPECT_EQ(data.code, 1) << data.output;
    expect_line(data,
                "before step 21 the states are the same, tensor by tensor; the step itself differs: its "
                "samples, of data with the fingerprints [0-9a-f]+ and [0-9a-f]+");
    expect_line(data,
                "in micro-batch 0 of step 21 field \"ids\" of the batch is not the same, first at \\[0,0\\]: "
                "\\d+ and \\d+ \\(32 of 32 elements\\)");
    expect_line(data,
                "after step 21 the states differ, first in token.weight \\[0,0\\]: .+ and .+ \\(84 of 84 "
                "tensors\\)");
  }
  const Result rate = bisect({"a", "rate", "--replay"});
  expect_line(
      rate,
      "before step 21 the states are the same, tensor by tensor; the step itself differs: its learning "
      "rate");
  expect_line(
      rate,
      "op by op its micro-batches compute the same in both, \\d+ values: what parts is made of them, by "
      "sums over micro-batches and ranks, by the update, or by kernels of several ops");
  const Result loss = bisect({"a", "loss", "--replay"});
  expect_line(
      loss,
      "the steps are not the same graph: behind \\d+ equal values A computes [a-z]+ at language.cpp:\\d+"
      ", [a-z]+ .*f32\\[.*");
  expect_line(loss, "  and B [a-z]+ at language.cpp:\\d+, .*");
}

// Equal graphs of equal values: other random numbers, another evaluator of the same ops; and what lies behind
// the micro-batches.
TEST_F(Bisect, ReplayNamesTheOpThatGivesSomethingElse) {
  write_tiny();
  auto run = [&](const std::string& name, int64_t steps, const std::string& key, const char* clip = "0.5") {
    train({"--nproc", "2", "c.json", "--model.dropout=0.1", "--data.order=sequential",
           str("--optim.clip=", clip), "--name=" + name, str("--train.steps=", steps), key});
  };
  const std::string same = "--log.every=1";
  run("a", 22, same);
  for (const char* name : {"seed", "slow", "clip"}) run(name, 20, same);
  run("seed", 22, "--train.seed=5");
  run("slow", 22, "--compile.backend=reference");
  run("clip", 22, same, "0.01");
  const Result seed = bisect({"a", "seed", "--replay", "--nproc", "2"});
  EXPECT_EQ(seed.code, 1) << seed.output;
  EXPECT_HAS(
      seed.output,
      "certificates are equal: of equal data, seeds, learning rates and state, one of the two computed "
      "wrong\n");
  expect_line(seed,
              "in micro-batch 0 of step 21 rng_uniform at gpt.cpp:\\d+ \\(dropout\\) is the first op that "
              "gives something else of the same, f32\\[2,16,32\\] first at \\[0,0,0\\]: 0.\\d+ and 0.\\d+ "
              "\\(\\d+ of 1024 elements\\)");
  const Result slow = bisect({"a", "slow", "--replay", "--nproc", "2"});
  EXPECT_EQ(slow.code, 1) << slow.output;
  expect_line(
      slow,
      "in micro-batch 0 of step 21 [a-z_]+ at gpt.cpp:\\d+.* is the first op that gives something else "
      "of the same, f32\\[.*\\] first at \\[.*\\]: .+ and .+ \\(\\d+ of \\d+ elements\\)");
  const Result clip = bisect({"a", "clip", "--replay", "--nproc", "2"});
  EXPECT_EQ(clip.code, 1) << clip.output;
  expect_line(
      clip,
      "the steps are not the same graph: behind \\d+ equal values A computes full at trainer.cpp:\\d+, "
      "full \\{shape=\\[\\], value=0.5, dtype=f32\\} f32\\[\\]");
  expect_line(clip,
              "  and B full at trainer.cpp:\\d+, full \\{shape=\\[\\], value=0.01, dtype=f32\\} f32\\[\\]");
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
