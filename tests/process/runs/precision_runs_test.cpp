// train.precision on the real trainrun: checkpoints of bf16 runs, the loss curve beside fp32, generated text,
// what the CPU refuses.
#include <cmath>

#include "checkpoint/checkpoint.h"
#include "core/types/half.h"
#include "tests/support/real_run.h"

namespace lockstep::tests {
namespace {

class PrecisionRuns : public RealRun {};

// How many elements of an f32 tensor are no bf16 numbers.
int64_t beyond_bf16(const Array& array) {
  int64_t count = 0;
  for (int64_t i = 0; i < numel(array.shape); ++i) {
    float value = array.data.as<float>()[i];
    count += static_cast<float>(bf16(value)) != value;
  }
  return count;
}

TEST_F(PrecisionRuns, CheckpointsHoldF32MastersAndResumeWithTheSameBits) {
  write_tiny();
  std::vector<std::string> bf16{"c.json", "--train.precision=bf16", "--train.steps=60",
                                "--checkpoint.async=false"};
  auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), bf16.begin(), bf16.end());
    return more;
  };
  train(with({"--nproc", "1", "--name=alone"}));
  auto killed = trainrun(with({"--nproc", "3"}), {{"LOCKSTEP_FAULT", "kill:rank=1,step=50"}});
  EXPECT_EQ(killed.code, kExitPeer) << killed.output;
  EXPECT_EQ(checkpoints("run"), (std::vector<std::string>{"step-20", "step-40"}));
  for (const char* fqn : {"token.weight", "norm.weight", "blocks.1.mlp.up.bias", "optim.token.weight.exp_avg",
                          "optim.norm.bias.exp_avg_sq"}) {
    Array array = checkpoint::read_tensor("runs/run/ckpt/step-40", fqn);
    EXPECT_EQ(array.dtype, DType::f32) << fqn;
    EXPECT_GT(beyond_bf16(array), numel(array.shape) / 2) << fqn << " is rounded";
  }
  auto resumed = trainrun(with({"--nproc", "2"}));
  ASSERT_EQ(resumed.code, kExitOk) << resumed.output;
  EXPECT_HAS(resumed.output, "(step 40, state ");
  EXPECT_EQ(resumed.output.find("bits may change"), std::string::npos) << resumed.output;
  expect_same_run("alone", "run");
  // Going on in fp32 is possible, and said.
  auto other = trainrun({"--nproc", "2", "c.json", "--train.steps=62"});
  EXPECT_EQ(other.code, kExitOk) << other.output;
  EXPECT_HAS(other.output, "bits may change");
}

// The loss scale is state: saved, resumed on other ranks, with the bits of a run that was not interrupted.
TEST_F(PrecisionRuns, Fp16CarriesItsLossScale) {
  write_tiny();
  const std::vector<std::string> fp16{"c.json", "--train.precision=fp16", "--checkpoint.async=false"};
  auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), fp16.begin(), fp16.end());
    return more;
  };
  train(with({"--nproc", "1", "--name=alone", "--train.steps=24"}));
  auto killed =
      trainrun(with({"--nproc", "3", "--train.steps=24"}), {{"LOCKSTEP_FAULT", "kill:rank=1,step=22"}});
  EXPECT_EQ(killed.code, kExitPeer) << killed.output;
  Array scale = checkpoint::read_tensor("runs/run/ckpt/step-20", "loss_scale.scale"),
        good = checkpoint::read_tensor("runs/run/ckpt/step-20", "loss_scale.good_steps");
  EXPECT_EQ(scale.dtype, DType::f32);
  int exponent = 0;
  EXPECT_EQ(std::frexp(*scale.data.as<float>(), &exponent), 0.5) << *scale.data.as<float>();
  EXPECT_GT(*good.data.as<float>(), 0);
  EXPECT_LE(*good.data.as<float>(), 20);
  auto resumed = trainrun(with({"--nproc", "2", "--train.steps=24"}));
  ASSERT_EQ(resumed.code, kExitOk) << resumed.output;
  expect_same_run("alone", "run");
  auto text = trainrun({"generate", "runs/run", "--prompt=0 ", "--tokens=4", "--temperature=0"});
  EXPECT_EQ(text.code, kExitOk) << text.output;
}

// Scales are of a micro-batch, so float8 has the same bits on any ranks; and the state is that of bf16.
TEST_F(PrecisionRuns, Float8HasTheSameBitsOnAnyRanks) {
  write_tiny();
  auto on = [&](const std::string& name, std::vector<std::string> launch, int steps) {
    for (const std::string& word : {std::string("c.json"), "--name=" + name, str("--train.steps=", steps),
                                    std::string("--checkpoint.every=3"), std::string("--train.eval_every=3"),
                                    std::string("--train.precision=float8")})
      launch.push_back(word);
    train(launch);
  };
  on("one", {"--nproc", "1"}, 6);
  on("two", {"--nproc", "2"}, 6);
  on("split", {"--nproc", "3", "--mesh.shape=[3]", R"(--mesh.dim_names=["dp_shard"])"}, 6);
  on("resumed", {"--nproc", "2"}, 3);
  on("resumed", {"--nproc", "3"}, 6);
  for (const char* of : {"two", "split", "resumed"}) expect_same_run("one", of);
  train({"--nproc", "1", "c.json", "--name=halves", "--train.steps=6", "--checkpoint.every=3",
         "--train.precision=bf16"});
  auto loss = [&](const char* name) { return std::stod(metrics(name).back().at("loss")); };
  const double eighths = loss("one"), halves = loss("halves");
  EXPECT_NE(eighths, halves);
  EXPECT_NEAR(eighths, halves, 0.05 * halves);
  // A run goes on from bf16 in float8, which is said.
  auto other =
      trainrun({"--nproc", "2", "c.json", "--name=halves", "--train.steps=8", "--train.precision=float8"});
  EXPECT_EQ(other.code, kExitOk) << other.output;
  EXPECT_HAS(other.output, "bits may change");
  auto text = trainrun({"generate", "runs/one", "--prompt=0 ", "--tokens=4", "--temperature=0"});
  EXPECT_EQ(text.code, kExitOk) << text.output;
}

// A row's scale is of its own elements alone.
TEST_F(PrecisionRuns, RowwiseScalesHaveTheSameBitsOnAnyRanks) {
  write_tiny();
  auto on = [&](const std::string& name, std::vector<std::string> launch, const std::string& recipe) {
    for (const std::string& word :
         {std::string("c.json"), "--name=" + name, std::string("--train.steps=6"),
          std::string("--train.eval_every=3"), std::string("--checkpoint.every=3"),
          std::string("--train.precision=float8"), "--train.float8.recipe=" + recipe})
      launch.push_back(word);
    train(launch);
  };
  on("one", {"--nproc", "1"}, "rowwise");
  on("two", {"--nproc", "2"}, "rowwise");
  on("split", {"--nproc", "3", "--mesh.shape=[3]", R"(--mesh.dim_names=["dp_shard"])"}, "rowwise");
  for (const char* of : {"two", "split"}) expect_same_run("one", of);
  on("tensors", {"--nproc", "1"}, "tensorwise");
  const double rows = std::stod(metrics("one").back().at("loss")),
               tensors = std::stod(metrics("tensors").back().at("loss"));
  EXPECT_NE(rows, tensors);
  EXPECT_NEAR(rows, tensors, 0.05 * tensors);
}

// Histories are state: saved, and gone on with on other ranks; a checkpoint without them is loaded in part.
TEST_F(PrecisionRuns, DelayedScalesAreState) {
  write_tiny();
  auto on = [&](const std::string& name, std::vector<std::string> launch, int steps) {
    for (const std::string& word :
         {std::string("c.json"), "--name=" + name, str("--train.steps=", steps),
          std::string("--checkpoint.every=3"), std::string("--train.eval_every=3"),
          std::string("--train.precision=float8"), std::string("--train.float8.recipe=delayed"),
          std::string("--train.float8.history=2")})
      launch.push_back(word);
    return launch;
  };
  train(on("one", {"--nproc", "1"}, 6));
  train(on("split", {"--nproc", "3", "--mesh.shape=[3]", R"(--mesh.dim_names=["dp_shard"])"}, 3));
  train(on("split", {"--nproc", "2"}, 6));
  expect_same_run("one", "split");
  const Array history = checkpoint::read_tensor("runs/one/ckpt/step-6", "blocks.0.mlp.up.amax_history");
  EXPECT_EQ(history.shape, (Shape{3, 2}));
  for (int64_t i = 0; i < 6; ++i) EXPECT_GT(history.data.as<float>()[i], 0) << i;
  train({"--nproc", "1", "c.json", "--name=halves", "--train.steps=3", "--checkpoint.every=3",
         "--train.precision=bf16"});
  auto missing = trainrun(on("halves", {"--nproc", "1"}, 6));
  EXPECT_EQ(missing.code, kExitUser) << missing.output;
  EXPECT_HAS(missing.output, "missing: blocks.0.attn.qkv.amax_history f32[3,2]");
  auto part = trainrun(on("halves", {"--nproc", "1", "--load.partial=true"}, 6));
  EXPECT_EQ(part.code, kExitOk) << part.output;
  EXPECT_HAS(part.output, "keeps its initial values: blocks.0.attn.qkv.amax_history f32[3,2]");
  auto text = trainrun({"generate", "runs/one", "--prompt=0 ", "--tokens=4", "--temperature=0"});
  EXPECT_EQ(text.code, kExitOk) << text.output;
}

TEST_F(PrecisionRuns, Tf32IsRefusedOnTheCpu) {
  write_tiny();
  auto result = trainrun({"--nproc", "1", "c.json", "--train.precision=tf32", "--train.device=cpu"});
  EXPECT_EQ(result.code, kExitUser) << result.output;
  EXPECT_HAS(
      result.output,
      "train.precision is \"tf32\", which the CPU does not have; choose fp32, which is more exact, or bf16");
}

// The model and data of configs/quickstart.json.
TEST_F(PrecisionRuns, LossCurveOfTheQuickstartBesideFp32) {
  if (!std::filesystem::is_directory("/usr/share/games/fortunes"))
    GTEST_SKIP() << "package fortunes is not installed";
  std::map<std::string, std::vector<MetricsLine>> curves;
  for (const char* precision : {"fp32", "bf16"}) {
    train({"--nproc", "1", QUICKSTART, str("--name=", precision), str("--train.precision=", precision),
           "--train.steps=40", "--train.seed=1", "--train.eval_every=0", "--log.every=1"});
    curves[precision] = metrics(precision);
    ASSERT_EQ(curves[precision].size(), 40u);
  }
  double worst = 0;
  for (size_t i = 0; i < 40; ++i) {
    double full = std::stod(curves["fp32"][i]["loss"]), half = std::stod(curves["bf16"][i]["loss"]);
    worst = std::max(worst, std::abs(half - full) / full);
    EXPECT_LE(std::abs(half - full), 0.02 * full) << "step " << i + 1;
  }
  std::cout << "worst relative difference of a loss over 40 steps: " << worst << "\n";
  EXPECT_LT(std::stod(curves["bf16"][39]["loss"]), 0.6 * std::stod(curves["bf16"][0]["loss"]))
      << "the model learns";
  auto text = trainrun({"generate", "runs/bf16", "--prompt=The ", "--tokens=8", "--temperature=0"});
  EXPECT_EQ(text.code, kExitOk) << text.output;
  EXPECT_EQ(text.output.rfind("The ", 0), 0u) << text.output;
}

}  // namespace
}  // namespace lockstep::tests
