// Runs on the mesh dim tp, end to end: evaluation, checkpoints that other meshes resume, generation, rows of
// placements, refusals.
#include "tests/support/real_run.h"

namespace lockstep::tests {
namespace {

class TensorParallelRuns : public RealRun {
 protected:
  // Of "STEP VALUE".
  static double number(const std::string& text) { return std::stod(text.substr(text.find(' ') + 1)); }
};
const std::vector<std::string> kTp{"--mesh.shape=[2]", "--mesh.dim_names=[tp]"};

std::vector<std::string> words(std::vector<std::string> first, const std::vector<std::string>& more) {
  first.insert(first.end(), more.begin(), more.end());
  return first;
}

// What tp 2 saved is loaded bit by bit on one rank (the state hash of the checkpoint is checked), and the
// losses go on as on one rank.
TEST_F(TensorParallelRuns, EvaluatesSavesResumesOnOneRankAndGenerates) {
  write_tiny();
  const std::vector<std::string> eight{"c.json", "--train.steps=8", "--checkpoint.every=4"};
  train(words({"--nproc", "2", "--name=two"}, words(eight, kTp)));
  train(words({"--nproc", "1", "--name=one"}, eight));
  for (const char* name : {"loss", "grad_norm", "val_loss"}) {
    auto two = column(metrics("two"), name), one = column(metrics("one"), name);
    ASSERT_EQ(two.size(), one.size()) << name;
    ASSERT_FALSE(one.empty()) << name;
    for (size_t i = 0; i < one.size(); ++i)
      EXPECT_NEAR(number(two[i]), number(one[i]), 1e-4 * number(one[i])) << name << " " << i;
  }
  auto result = trainrun({"--nproc", "1", "--name=two", "c.json", "--train.steps=10"});
  EXPECT_EQ(result.code, kExitOk) << result.output;
  EXPECT_NE(result.output.find("runs/two/ckpt/step-8 (step 8, state " +
                               manifest("two", 8)["state_hash"].get<std::string>()),
            std::string::npos)
      << result.output;
  // And back, on data ranks and tp together.
  train(words({"--nproc", "4", "--name=two", "c.json", "--train.steps=12"},
              {"--mesh.shape=[2,2]", "--mesh.dim_names=[dp_replicate,tp]"}));
  EXPECT_EQ(last_step("two"), 12);
}

// A device whose memory the host cannot follow has groups of its own for tp.
TEST_F(TensorParallelRuns, OnADeviceWithItsOwnMemory) {
  write_tiny();
  train(words({"--nproc", "2", "--name=host", "c.json", "--train.steps=3", "--model.dropout=0.1"}, kTp));
  train(words({"--nproc", "2", "--name=far", "c.json", "--train.steps=3", "--model.dropout=0.1",
               "--train.device=plugin:" FAR_DEVICE},
              kTp));
  expect_same_run("host", "far");
}

// Updates that look at whole matrices, or at their rows and columns: ranks that are processes, threads, on
// data dims beside tp and on a device with its own memory have one set of bits; a checkpoint goes on
// elsewhere.
TEST_F(TensorParallelRuns, MuonAndAdafactorTrainOnSplitMatrices) {
  write_tiny();
  for (const std::string kind : {"muon", "adafactor"}) {
    SCOPED_TRACE(kind);
    auto named = [&](const std::string& name) {
      return std::vector<std::string>{"c.json", "--train.steps=4", "--optim.kind=" + kind,
                                      "--name=" + kind + "-" + name};
    };
    const std::vector<std::string> both{"--mesh.shape=[2,2]", "--mesh.dim_names=[dp_shard,tp]"};
    train(words({"--nproc", "2"}, words(named("two"), kTp)));
    train(words({"--simulate", "2"}, words(named("threads"), kTp)));
    train(words({"--nproc", "4"}, words(named("four"), both)));
    train(words({"--nproc", "2", "--train.device=plugin:" FAR_DEVICE}, words(named("far"), kTp)));
    train(words({"--nproc", "1"}, named("one")));
    for (const char* name : {"-threads", "-four", "-far"}) expect_same_run(kind + name, kind + "-two");
    const auto two = column(metrics(kind + "-two"), "loss"), one = column(metrics(kind + "-one"), "loss");
    ASSERT_EQ(two.size(), one.size());
    for (size_t i = 0; i < one.size(); ++i)
      EXPECT_NEAR(number(two[i]), number(one[i]), 1e-4 * number(one[i])) << i;
    auto plan = trainrun(words({"plan", "--long", "--nproc", "2"}, words(named("two"), kTp)));
    EXPECT_EQ(plan.code, kExitOk) << plan.output;
    EXPECT_HAS(plan.output, "model_gather");
    auto resumed = trainrun(
        {"--nproc", "1", "c.json", "--name=" + kind + "-two", "--train.steps=6", "--optim.kind=" + kind});
    EXPECT_EQ(resumed.code, kExitOk) << resumed.output;
    EXPECT_HAS(resumed.output, "(step 4, state ");
  }
}

TEST_F(TensorParallelRuns, RowsOfTheConfigOverrideTheModels) {
  write_tiny();
  train(words(
      {"--nproc", "2", "--name=rows", "c.json", "--train.steps=2",
       R"x(--placements=[{"dim": "tp", "params": "blocks.**", "place": "replicate"}, {"dim": "tp", "params": "position.weight", "place": "shard(1)"}])x"},
      kTp));
  train({"--nproc", "1", "--name=one", "c.json", "--train.steps=2"});
  const auto rows = metrics("rows"), one = metrics("one");
  for (size_t i = 0; i < 2; ++i)
    EXPECT_NEAR(std::stod(rows.at(i).at("loss")), std::stod(one.at(i).at("loss")), 1e-4);
  auto result =
      trainrun(words({"--nproc", "2", "--name=bad", "c.json", "--train.steps=2",
                      R"x(--placements=[{"dim": "tp", "params": "token.weight", "place": "shard(0)"}])x"},
                     kTp));
  EXPECT_NE(result.code, kExitOk);
  EXPECT_NE(
      result.output.find(
          "\"token.weight\" is Shard(0) by the row {\"tp\", \"token.weight\", Shard(0)} at placements:1"),
      std::string::npos)
      << result.output;
}

}  // namespace
}  // namespace lockstep::tests
