// The section optim of a config: keys of other kinds, and what keys ask of each other, each on its words.
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "launcher/config/config.h"

namespace lockstep::launcher {
namespace {

std::string with(const std::vector<std::string>& words) {
  try {
    parse_config(R"({"data": {"paths": ["a"]}})", "c.json", parse_overrides(words, {}));
    return "accepted";
  } catch (const UserError& error) { return error.what(); }
}

TEST(OptimConfigErrors, MomentsOfTheseKinds) {
  EXPECT_EQ(with({"--optim.moments=bf16"}), "accepted");
  EXPECT_EQ(
      with({"--optim.moments=bf16", "--optim.kind=rmsprop"}),
      "c.json: optim.moments is \"bf16\", but it belongs to optim.kind adamw or lion or muon and optim.kind "
      "is rmsprop; leave it out, or choose adamw or lion or muon");
  EXPECT_EQ(with({"--optim.moments=fp16"}),
            "c.json: optim.moments is \"fp16\"; choose fp32 | bf16; did you mean fp32?");
  EXPECT_EQ(with({"--optim.exp_avg_dtype=bf16"}),
            "command line: unknown key optim.exp_avg_dtype in --optim.exp_avg_dtype=bf16; did you mean "
            "optim.moments (fp32 or bf16)?");
}

TEST(OptimConfigErrors, WordsOfOthersForMomentsOnTheHost) {
  EXPECT_EQ(with({"--optim.offload=true"}), "accepted");
  EXPECT_EQ(with({"--optim.offload=cpu"}),
            "c.json: optim.offload is \"cpu\", a string; it must be a boolean, like its default false");
  for (const char* word : {"offload_optimizer", "cpu_offload", "optimizer_offload"})
    EXPECT_EQ(
        with({str("--optim.", word, "=true")}),
        str("command line: unknown key optim.", word, " in --optim.", word,
            "=true; did you mean optim.offload true? Moments are then stored in host memory; weights stay "
            "on the device"));
}

TEST(OptimConfigErrors, PlateauOfAMetric) {
  auto plateau = [](std::vector<std::string> more) {
    more.insert(more.begin(), "--optim.schedule.kind=plateau");
    return with(more);
  };
  EXPECT_EQ(plateau({"--optim.schedule.metric=val_loss", "--train.eval_every=5"}), "accepted");
  EXPECT_EQ(
      plateau({"--optim.schedule.metric=val_loss"}),
      "c.json: optim.schedule.metric is val_loss, and train.eval_every is 0: there is one validation, at "
      "the end; give steps between validations, as in train.eval_every=100");
  EXPECT_EQ(plateau({"--optim.schedule.metric=accuracy"}),
            "c.json: optim.schedule.metric is \"accuracy\"; give loss, or a number of the validation, as in "
            "val_loss or val_accuracy");
  EXPECT_EQ(
      plateau({"--optim.schedule.threshold=2"}),
      "c.json: optim.schedule.threshold is 2, more than the whole of the best metric; give a share, as in "
      "0.01, or choose optim.schedule.threshold_mode abs");
  EXPECT_EQ(plateau({"--optim.schedule.threshold=2", "--optim.schedule.threshold_mode=abs"}), "accepted");
  EXPECT_EQ(plateau({"--optim.schedule.metric=val_loss", "--train.eval_every=5", "--optim.schedule.every=7"}),
            "c.json: optim.schedule.every is 7, but it belongs to optim.schedule.metric loss and "
            "optim.schedule.metric is val_loss; leave it out, or choose loss");
  EXPECT_EQ(
      with({"--optim.schedule.metric=val_loss"}),
      "c.json: optim.schedule.metric is \"val_loss\", but it belongs to optim.schedule.kind plateau and "
      "optim.schedule.kind is constant; leave it out, or choose plateau");
}

}  // namespace
}  // namespace lockstep::launcher
