// optim.schedule plateau of a number of the validation: its looks, one set of bits on any mesh and behind a
// stop, and what is refused of its keys.
#include "tests/support/real_run.h"

namespace lockstep::tests {
namespace {

// Improvements below a half of the best loss do not count, so that the rate falls soon.
const std::vector<std::string> kPlateau = {"--optim.schedule.kind=plateau",
                                           "--optim.schedule.metric=val_loss",
                                           "--optim.schedule.factor=0.5",
                                           "--optim.schedule.patience=1",
                                           "--optim.schedule.threshold=0.5",
                                           "--optim.schedule.cooldown=1",
                                           "--optim.schedule.min_ratio=0.25",
                                           "--optim.schedule.warmup=0",
                                           "--train.eval_every=3",
                                           "--log.every=1"};

class PlateauRuns : public RealRun {
 protected:
  static std::vector<std::string> with(std::vector<std::string> words, const std::string& name) {
    words.insert(words.end(), {"c.json", "--name=" + name});
    words.insert(words.end(), kPlateau.begin(), kPlateau.end());
    return words;
  }
  // The rates of the run's steps, as a rule of PyTorch's scheduler makes them of its validation losses.
  static std::vector<double> rates_by(const std::vector<double>& losses, int64_t steps, double lr) {
    std::vector<double> out;
    double best = INFINITY, factor = 1;
    int waited = 0, rest = 0;
    size_t look = 0;
    for (int64_t i = 1; i <= steps; ++i) {
      out.push_back(lr * factor);
      if (i % 3 != 0) continue;
      const double loss = losses.at(look++);
      if (loss < best * 0.5)
        best = loss, waited = 0;
      else
        ++waited;
      if (rest > 0) --rest, waited = 0;
      if (waited > 1) factor = std::max(0.25, factor * 0.5), rest = 1, waited = 0;
    }
    return out;
  }
  static std::vector<double> numbers(const std::string& name, const std::string& of) {
    std::vector<double> out;
    for (const auto& line : metrics(name))
      if (auto found = line.find(of); found != line.end()) out.push_back(std::stod(found->second));
    return out;
  }
};

TEST_F(PlateauRuns, TheRateFollowsTheValidationOnAnyMesh) {
  write_tiny();
  train(with({"--nproc", "1", "--train.steps=24"}, "one"));
  const auto losses = numbers("one", "val_loss"), rates = numbers("one", "lr");
  ASSERT_EQ(losses.size(), 8u);
  const auto wanted = rates_by(losses, 24, 1e-2);
  ASSERT_EQ(rates.size(), wanted.size());
  for (size_t i = 0; i < rates.size(); ++i) EXPECT_NEAR(rates[i], wanted[i], 1e-8) << i;
  EXPECT_NEAR(rates.back(), 0.25e-2, 1e-8);  // it fell twice, and no lower
  train(with({"--nproc", "2", "--train.steps=24"}, "two"));
  train(with({"--simulate", "3", "--train.steps=24", "--mesh.shape=[3]", "--mesh.dim_names=[\"dp_shard\"]"},
             "shards"));
  for (const char* name : {"two", "shards"}) {
    EXPECT_EQ(column(metrics(name), "val_loss"), column(metrics("one"), "val_loss"));
    EXPECT_EQ(column(metrics(name), "lr"), column(metrics("one"), "lr"));
    EXPECT_EQ(final_hash(name), final_hash("one")) << name;
  }
  train({"--nproc", "1", "c.json", "--name=constant", "--train.steps=24", "--train.eval_every=3",
         "--optim.schedule.warmup=0"});
  EXPECT_NE(column(metrics("constant"), "val_loss"), column(metrics("one"), "val_loss"));
}

TEST_F(PlateauRuns, AStopBetweenLooksLeavesNoTrace) {
  write_tiny();
  train(with({"--nproc", "1", "--train.steps=24"}, "whole"));
  // The first part ends at a step that has a validation of its own, which is no look.
  train(with({"--nproc", "2", "--train.steps=11"}, "parts"));
  EXPECT_EQ(numbers("parts", "val_loss").size(), 4u);
  train(with({"--nproc", "1", "--train.steps=24"}, "parts"));
  EXPECT_EQ(column(metrics("parts"), "lr"), column(metrics("whole"), "lr"));
  EXPECT_EQ(final_hash("parts"), final_hash("whole"));
}

TEST_F(PlateauRuns, AMetricThatTheRunDoesNotHaveIsRefused) {
  write_tiny();
  auto refused = [&](std::vector<std::string> more, const std::string& words) {
    auto all = with({"--nproc", "1", "--train.steps=4"}, "refused");
    all.insert(all.end(), more.begin(), more.end());
    const auto result = trainrun(all);
    EXPECT_EQ(result.code, kExitUser) << result.output;
    EXPECT_HAS(result.output, words);
  };
  refused({"--optim.schedule.metric=val_accuracy"},
          "optim.schedule.metric is \"val_accuracy\", which the validation of task.kind causal_lm does not "
          "give; choose val_loss or val_perplexity");
  refused({"--data.validation=0"},
          "optim.schedule.metric is val_loss, and the run has no validation; give it samples, as in "
          "data.validation=0.1");
}

}  // namespace
}  // namespace lockstep::tests
