// Families against their originals in PyTorch: names and shapes of the state, loss, gradients, running
// statistics and loss in evaluation, from weights and a batch that follow from formulas. models/ holds the
// numbers, and the script that made them.
#include <gtest/gtest.h>

#include <fstream>

#include "core/models/families.h"
#include "core/nn/layers.h"
#include "tests/support/model_run.h"

namespace lockstep {
namespace {

using models::Output;

Json rows() {
  std::ifstream file(LOCKSTEP_GOLDEN_MODELS);
  return Json::parse(file);
}

// The mean cross-entropy of targets that the batch gives, whatever the family's task.
tests::ModelRun run_of(const Json& row) {
  constexpr int64_t kBatch = 4;
  tests::ModelRun run{.kind = row["kind"],
                      .options = row["options"],
                      .global = kBatch,
                      .micro = kBatch,
                      .steps = 1,
                      .formula = true};
  const Output output = models::family(run.kind).output;
  Shape targets;
  if (output == Output::values) targets = {1};
  if (output == Output::next_tokens || output == Output::tokens || output == Output::sequences)
    targets = {row["options"]["context"].get<int64_t>()};
  if (output == Output::pixels)
    targets = {row["options"]["size"].get<int64_t>(), row["options"]["size"].get<int64_t>()};
  run.fields = {{"targets", output == Output::values ? DType::f32 : DType::i32, targets}};
  run.objectives = [output](const models::Model& model, const tasks::Batch& batch) {
    Tensor y = model.forward(batch.of(model.inputs))[0], given = batch["targets"];
    if (output == Output::pixels) y = permute(y, {0, 2, 3, 1});
    return std::vector<tasks::Objective>{
        {output == Output::values ? binary_cross_entropy_with_logits(y, given) : cross_entropy(y, given)}};
  };
  return run;
}
void expect_close(double found, double expected, double tolerance, const std::string& what) {
  EXPECT_NEAR(found, expected, tolerance * (std::abs(expected) + 1e-3)) << what;
}

class GoldenModels : public testing::TestWithParam<Json> {};
INSTANTIATE_TEST_SUITE_P(Rows, GoldenModels, testing::ValuesIn(rows().get<std::vector<Json>>()),
                         [](const auto& given) {
                           return given.param["kind"].template get<std::string>() +
                                  std::to_string(given.index);
                         });

TEST_P(GoldenModels, EvaluatesAsTheOriginal) {
  tests::ModelRun run = run_of(GetParam());
  run.evaluation = true;
  const auto result = train_model(run);
  std::map<std::string, Shape> state = GetParam()["state"];
  EXPECT_EQ(result.state, state);
  expect_close(std::stod(result.losses[0]), GetParam()["evaluation"], 2e-5, "loss");
}

TEST_P(GoldenModels, TrainsAsTheOriginal) {
  const Json& row = GetParam();
  if (row["loss"].is_null()) return;  // says what it evaluates alone
  const auto result = train_model(run_of(row));
  expect_close(std::stod(result.losses[0]), row["loss"], 2e-5, "loss");
  expect_close(result.metrics.at("grad_norm"), row["norm"], 1e-4, "norm of the gradients");
  for (const auto& [fqn, norm] : row["norms"].items())
    EXPECT_NEAR(result.metrics.at("norm." + fqn), norm.get<double>(), 1e-4 * row["norm"].get<double>())
        << fqn;
  for (const auto& [fqn, norm] : row["buffers"].items()) expect_close(result.norms.at(fqn), norm, 2e-5, fqn);
}

}  // namespace
}  // namespace lockstep
