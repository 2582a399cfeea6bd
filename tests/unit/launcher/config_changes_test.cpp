// What changed since a checkpoint: every key has an effect, and each change is told with it.
#include <gtest/gtest.h>

#include "core/base/text.h"
#include "launcher/config/changes.h"

namespace lockstep {

using namespace launcher;

namespace {

// A key that is added to RunConfig is added to the table of changes.cpp, or this fails.
TEST(ConfigChanges, EveryKeyHasAnEffect) {
  std::vector<std::string> without;
  for (const auto& key : config_keys())
    if (!effect_of(key.path)) without.push_back(key.path);
  EXPECT_EQ(without, std::vector<std::string>{}) << "add rows to launcher/config/changes.cpp";
  EXPECT_FALSE(effect_of("no.key"));
}

std::vector<ConfigChange> changes(const std::function<void(RunConfig&)>& edit,
                                  bool other_certificate = false) {
  RunConfig now;
  const Json stored = config_json(now);
  edit(now);
  return config_changes(stored, now, 60, other_certificate);
}

TEST(ConfigChanges, NothingIsSaidOfWhatNoBitDependsOn) {
  EXPECT_TRUE(changes([](RunConfig&) {}).empty());
  EXPECT_TRUE(changes([](RunConfig& c) {
                c.name = "other", c.log.every = 3, c.checkpoint.every = 7, c.data.paths = {"elsewhere"},
                c.mesh.zero = 1, c.compile.threads = 9;
                c.train.steps = 5000;  // of a constant rate
                c.batch.micro = 8;     // the certificate says that the bits are the same
              }).empty());
}

TEST(ConfigChanges, EachChangeIsToldWithWhatItDoes) {
  const auto all = changes([](RunConfig& c) {
    c.train.seed = 2, c.data.order = "sequential", c.data.validation = 0.1, c.optim.lr = 1,
    c.batch.global = 16, c.optim.clip = 0;
    c.optim.schedule.kind = "cosine", c.train.steps = 70, c.train.eval_batches = 1,
    c.model.set("dropout", 0.1);
  });
  EXPECT_EQ(
      changes_table(all),
      "  key                  checkpoint  now           what it does to bits\n"
      "  model.dropout        0.0         0.1           other dropout masks from step 61 on\n"
      "  data.order           \"shuffle\"   \"sequential\"  other samples from step 61 on\n"
      "  data.validation      0.0         0.1           other samples from step 61 on\n"
      "  batch.global         32          16            other samples from step 61 on: that step starts at "
      "sample 960 of the order, not at "
      "1920, and averages over 16\n"
      "  train.steps          1000        70            another learning rate from step 61 on\n"
      "  train.seed           1337        2             other samples and dropout masks from step 61 on; the "
      "weights stay those of the "
      "checkpoint\n"
      "  train.eval_batches   8           1             same bits; validation losses are of other sequences\n"
      "  optim.lr             0.0003      1.0           another learning rate from step 61 on\n"
      "  optim.clip           1.0         0.0           other updates of the same gradients from step 61 on\n"
      "  optim.schedule.kind  \"constant\"  \"cosine\"      another learning rate from step 61 on");
  const auto rounding = changes([](RunConfig& c) { c.batch.micro = 8; }, true);
  ASSERT_EQ(rounding.size(), 1u);
  EXPECT_EQ(rounding[0].words, "other rounding from step 61 on");
}

TEST(ConfigChanges, AnotherModelOfTheSameWeightsNeedsAWord) {
  RunConfig now;
  const auto changed = changes([&](RunConfig& c) { c.model.set("heads", 2); });
  EXPECT_EQ(
      other_model_error(changed, now, "runs/x/ckpt/step-60"),
      "runs/x/ckpt/step-60 was made by another model: its weights fit this one, but mean something else in "
      "it\n"
      "  key          checkpoint  now  what it does to bits\n"
      "  model.heads  4           2    another model of the same weights\n"
      "  set it back, start afresh under another --name, or, where it is meant, add --resume.allow=model");
  now.resume.allow = {"model"};
  EXPECT_EQ(other_model_error(changed, now, "x"), "");
  now.resume.allow = {};
  EXPECT_EQ(other_model_error(changes([](RunConfig& c) { c.optim.lr = 1; }), now, "x"), "");
}

// A checkpoint of an older version has fewer keys, one of a user's own program none.
TEST(ConfigChanges, WhatWasNotStoredWasAtItsDefault) {
  RunConfig now;
  now.model.set("eps", 1e-6);
  Json stored = config_json(RunConfig{});
  stored["model"].erase("eps");
  stored["model"]["unknown"] = 7;
  const auto changed = config_changes(stored, now, 1, true);
  ASSERT_EQ(changed.size(), 1u);
  EXPECT_EQ(changed[0].path, "model.eps");
  EXPECT_EQ(changed[0].was, Json(1e-5));
  EXPECT_TRUE(config_changes(Json::object(), now, 1, true).empty());
  EXPECT_TRUE(config_changes(nullptr, now, 1, true).empty());
}

}  // namespace
}  // namespace lockstep
