// The losses and gradient norms of a small GPT in PyTorch (fp32), from the same weights and tokens.
#include "checkpoint/checkpoint.h"
#include "tests/support/real_run.h"

namespace lockstep::tests {
namespace {

constexpr double kLossTolerance = 2e-5, kNormTolerance = 1e-4;  // relative

double relative(double got, double want) { return std::abs(got - want) / std::abs(want); }

class Golden : public RealRun {
 protected:
  void SetUp() override {
    RealRun::SetUp();
    golden_ = Json::parse(file_text(GOLDEN "/golden.json"));
    Json optim = golden_["optim"];
    optim["kind"] = "adamw";
    Json config = {{"name", "golden"},
                   {"model", golden_["model"]},
                   {"data", {{"kind", "tokens"}, {"paths", {GOLDEN "/tokens.bin"}}, {"order", "sequential"}}},
                   {"batch", {{"global", golden_["global_batch"]}, {"micro", 2}}},
                   {"train", {{"steps", golden_["steps"].size()}}},
                   {"optim", optim},
                   {"log", {{"every", 1}}}};
    scratch_.write("golden.json", config.dump());
  }
  Json golden_;
};

class GoldenRuns : public Golden, public ::testing::WithParamInterface<std::tuple<std::string, int>> {};

TEST_P(GoldenRuns, LossesAndGradientNormsOfPyTorch) {
  auto [backend, nproc] = GetParam();
  train({"--nproc", str(nproc), "golden.json", "--init_from=" GOLDEN "/init.safetensors",
         "--compile.backend=" + backend});
  auto lines = metrics("golden");
  ASSERT_EQ(lines.size(), 20u);
  double worst_loss = 0, worst_norm = 0;
  for (size_t i = 0; i < lines.size(); ++i) {
    const Json& want = golden_["steps"][i];
    ASSERT_EQ(lines[i]["step"], str(want["step"].get<int>()));
    worst_loss = std::max(worst_loss, relative(std::stod(lines[i]["loss"]), want["loss"]));
    worst_norm = std::max(worst_norm, relative(std::stod(lines[i]["grad_norm"]), want["grad_norm"]));
  }
  std::cout << backend << " on " << nproc << (nproc == 1 ? " rank" : " ranks")
            << ": worst relative difference of a loss " << worst_loss << ", of a gradient norm " << worst_norm
            << "\n";
  EXPECT_LE(worst_loss, kLossTolerance);
  EXPECT_LE(worst_norm, kNormTolerance);
}

INSTANTIATE_TEST_SUITE_P(Runs, GoldenRuns,
                         testing::Combine(testing::Values("native", "eager", "reference"),
                                          testing::Values(1, 3)),
                         [](const auto& info) {
                           return str(std::get<0>(info.param), "_on_", std::get<1>(info.param));
                         });

// After one step exp_avg is (1 - beta1) times the gradient, which is below the clipping bound: each
// parameter's gradient against PyTorch's.
TEST_F(Golden, GradientOfEachParameter) {
  train({"--nproc", "2", "golden.json", "--init_from=" GOLDEN "/init.safetensors", "--train.steps=1"});
  ASSERT_LT(golden_["steps"][0]["grad_norm"].get<double>(), golden_["optim"]["clip"].get<double>());
  double share = 1 - golden_["optim"]["betas"][0].get<double>();
  for (const auto& [fqn, want] : golden_["grad_norm_step1"].items()) {
    Array moment = checkpoint::read_tensor("runs/golden/ckpt/step-1", "optim." + fqn + ".exp_avg");
    double squares = 0;
    for (int64_t i = 0; i < numel(moment.shape); ++i)
      squares += std::pow(static_cast<double>(moment.data.as<float>()[i]), 2);
    EXPECT_LE(relative(std::sqrt(squares) / share, want), kNormTolerance) << fqn;
  }
}

// bf16 compute: PyTorch in bf16 with fp32 masters lies 4e-5 from these losses and 5e-3 from the norms (2.11,
// CPU).
TEST_F(Golden, Bf16StaysAsNearAsPyTorchDoes) {
  train({"--nproc", "2", "golden.json", "--init_from=" GOLDEN "/init.safetensors", "--train.precision=bf16"});
  auto lines = metrics("golden");
  ASSERT_EQ(lines.size(), 20u);
  for (size_t i = 0; i < lines.size(); ++i) {
    EXPECT_LE(relative(std::stod(lines[i]["loss"]), golden_["steps"][i]["loss"]), 2e-4) << "step " << i + 1;
    EXPECT_LE(relative(std::stod(lines[i]["grad_norm"]), golden_["steps"][i]["grad_norm"]), 1e-2)
        << "step " << i + 1;
  }
}

// A tolerance that a wrong run would pass shows nothing.
TEST_F(Golden, AnotherModelIsFarFromThem) {
  train({"golden.json", "--init_from=" GOLDEN "/init.safetensors", "--optim.weight_decay=0",
         "--optim.betas=[0.9, 0.999]"});
  auto lines = metrics("golden");
  double worst = 0;
  for (size_t i = 0; i < lines.size(); ++i)
    worst = std::max(worst, relative(std::stod(lines[i]["loss"]), golden_["steps"][i]["loss"]));
  EXPECT_GT(worst, 10 * kLossTolerance);
}

}  // namespace
}  // namespace lockstep::tests
