// The best validation: what counts as better, when a run is over, and what a checkpoint keeps of it.
#include "launcher/loop/best_validation.h"

#include <gtest/gtest.h>

#include <limits>

#include "core/base/error.h"

namespace lockstep {
namespace {

using launcher::BestValidation;
using launcher::TrainConfig;

TrainConfig config_of(int64_t patience, const std::string& monitor = "val_loss",
                      const std::string& mode = "min", double min_delta = 0) {
  TrainConfig config;
  config.patience = patience, config.monitor = monitor, config.monitor_mode = mode,
  config.min_delta = min_delta;
  return config;
}

TEST(BestValidation, LessIsBetterAndPatienceEnds) {
  const TrainConfig config = config_of(2);
  BestValidation best(config);
  EXPECT_TRUE(best.better(10, {{"loss", 3.0}}));
  EXPECT_TRUE(best.better(20, {{"loss", 2.0}}));
  EXPECT_FALSE(best.better(30, {{"loss", 2.0}}));  // as good is not better
  EXPECT_FALSE(best.over());
  EXPECT_FALSE(best.better(40, {{"loss", 2.5}}));
  EXPECT_TRUE(best.over());
  EXPECT_EQ(best.step(), 20);
  EXPECT_EQ(best.words(), "val_loss was not below 2, of step 20, in 2 validations");
}

TEST(BestValidation, AnotherMetricOfWhichMoreIsBetter) {
  const TrainConfig config = config_of(1, "val_accuracy", "max", 0.1);
  BestValidation best(config);
  EXPECT_TRUE(best.better(1, {{"loss", 3.0}, {"accuracy", 0.5}}));
  EXPECT_TRUE(best.better(2, {{"loss", 1.0}, {"accuracy", 0.55}}));  // the best, though it ends no wait
  EXPECT_EQ(best.step(), 2);
  EXPECT_TRUE(best.over());
  EXPECT_EQ(best.words(), "val_accuracy was not above 0.5, of step 1, by more than 0.1, in 1 validation");
}

// min_delta decides the wait alone: small gains add up to one that ends it, and each is the best so far.
TEST(BestValidation, TheLeastOneIsTheBestWhateverTheDelta) {
  const TrainConfig config = config_of(3, "val_loss", "min", 1);
  BestValidation best(config);
  EXPECT_TRUE(best.better(1, {{"loss", 5.0}}));
  EXPECT_TRUE(best.better(2, {{"loss", 4.4}}));
  EXPECT_FALSE(best.better(3, {{"loss", 4.5}}));
  EXPECT_TRUE(best.better(4, {{"loss", 3.9}}));  // 1.1 below the first
  EXPECT_FALSE(best.over());
  EXPECT_TRUE(best.better(5, {{"loss", 3.8}}));
  BestValidation resumed(config);
  resumed.restore(Json::parse(best.json().dump()));
  for (BestValidation* both : {&best, &resumed}) {
    EXPECT_FALSE(both->better(6, {{"loss", 3.85}})) << "it knows of step 5";
    EXPECT_FALSE(both->over());
    EXPECT_TRUE(both->better(7, {{"loss", 3.7}}));
    EXPECT_TRUE(both->over());
    EXPECT_EQ(both->step(), 7);
    EXPECT_EQ(both->words(), "val_loss was not below 3.9, of step 4, by more than 1, in 3 validations");
  }
  // A checkpoint of a version that kept one value alone.
  resumed.restore({{"value", 2.0}, {"step", 9}, {"waited", 1}});
  EXPECT_EQ(resumed.step(), 9);
  EXPECT_FALSE(resumed.better(10, {{"loss", 2.5}}));
}

TEST(BestValidation, WhatIsNotFiniteIsNoBest) {
  const TrainConfig config = config_of(2);
  BestValidation best(config);
  EXPECT_FALSE(best.better(1, {{"loss", std::numeric_limits<double>::quiet_NaN()}}));
  EXPECT_FALSE(best.better(2, {{"loss", std::numeric_limits<double>::infinity()}}));
  EXPECT_TRUE(best.over());
  EXPECT_EQ(best.words(), "val_loss was not finite in 2 validations");
  EXPECT_TRUE(best.better(3, {{"loss", 9.0}}));
  EXPECT_FALSE(best.over());
}

TEST(BestValidation, NothingIsTheBestWhereTheLossIsNotFinite) {
  const TrainConfig config = config_of(0, "val_accuracy", "max");
  BestValidation best(config);
  EXPECT_FALSE(best.better(1, {{"loss", std::numeric_limits<double>::quiet_NaN()}, {"accuracy", 0.9}}));
  EXPECT_TRUE(best.better(2, {{"loss", 1.0}, {"accuracy", 0.5}}));
}

TEST(BestValidation, WithoutPatienceItNeverEnds) {
  const TrainConfig config = config_of(0);
  BestValidation best(config);
  for (int64_t i = 1; i < 100; ++i) best.better(i, {{"loss", 1.0}});
  EXPECT_FALSE(best.over());
}

TEST(BestValidation, GoesOnFromACheckpoint) {
  const TrainConfig config = config_of(2);
  BestValidation whole(config), first(config), resumed(config);
  for (BestValidation* best : {&whole, &first})
    for (int64_t i = 1; i <= 2; ++i) best->better(i, {{"loss", 0.1 * static_cast<double>(i)}});
  resumed.restore(Json::parse(first.json().dump()));
  for (BestValidation* best : {&whole, &resumed}) best->better(3, {{"loss", 0.3}});
  EXPECT_TRUE(whole.over());
  EXPECT_EQ(resumed.json(), whole.json());
  EXPECT_EQ(resumed.words(), whole.words());
  for (const Json& other : {Json(), Json::array(), Json{{"value", "x"}}, Json{{"value", 1.0}, {"step", 3}}}) {
    resumed.restore(other);
    EXPECT_EQ(resumed.json(), BestValidation(config).json()) << other.dump();
  }
}

TEST(BestValidation, AMetricThatNobodyMeasuresIsRefused) {
  const TrainConfig config = config_of(1, "val_acuracy");
  BestValidation best(config);
  try {
    best.check({"loss", "accuracy", "tokens"});
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(),
                 "train.monitor is \"val_acuracy\", which no validation measures; it measures val_loss, "
                 "val_accuracy; did you mean val_accuracy?");
  }
  EXPECT_THROW(best.better(1, {{"loss", 1.0}, {"accuracy", 0.5}}), UserError);
  BestValidation(config_of(1, "val_accuracy", "max")).check({"loss", "accuracy"});
}

}  // namespace
}  // namespace lockstep
