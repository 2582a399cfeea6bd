// Decisions about steps: what is not finite, what is a spike, how often is too often, and what a checkpoint
// keeps of it.
#include "launcher/loop/guard.h"

#include <gtest/gtest.h>

#include <limits>

namespace lockstep {
namespace {

using Action = launcher::StepGuard::Action;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();

launcher::TrainConfig config_of(const std::string& on_nonfinite, const std::string& on_spike = "warn",
                                int64_t limit = 3, int64_t window = 20) {
  launcher::TrainConfig config;
  config.on_nonfinite = on_nonfinite, config.on_spike = on_spike, config.nonfinite_limit = limit,
  config.spike_window = window;
  return config;
}
void go_on(launcher::StepGuard& guard, int64_t from, int64_t to) {
  for (int64_t i = from; i <= to; ++i) {
    auto finding = guard.judge(i, 2.0f, 1.0f);
    EXPECT_EQ(finding.action, Action::go_on);
    EXPECT_EQ(finding.words, "");
  }
}

TEST(Guard, WhatIsNotFiniteDoesWhatTheKeySays) {
  for (auto [word, action] :
       {std::pair("stop", Action::stop), {"skip", Action::skip}, {"rewind", Action::rewind}})
    for (auto [loss, norm] : {std::pair(kNan, 1.0f), {1.0f, kInf}, {-kNan, kNan}, {kInf, 0.0f}}) {
      const launcher::TrainConfig config = config_of(word);
      launcher::StepGuard guard(config);
      const auto finding = guard.judge(1, loss, norm);
      EXPECT_EQ(finding.action, action);
      EXPECT_TRUE(finding.nonfinite);
    }
  const launcher::TrainConfig config = config_of("stop");
  EXPECT_EQ(launcher::StepGuard(config).judge(1, -kNan, kInf).words,
            "the loss is nan and the gradient norm is inf");
}

TEST(Guard, SkipsInARowAreBounded) {
  const launcher::TrainConfig config = config_of("skip");
  launcher::StepGuard guard(config);
  for (int64_t i = 1; i <= 3; ++i) EXPECT_EQ(guard.judge(i, kNan, 1).action, Action::skip);
  go_on(guard, 4, 4);
  for (int64_t i = 5; i <= 7; ++i) EXPECT_EQ(guard.judge(i, kNan, 1).action, Action::skip);
  EXPECT_EQ(guard.passed_over(), 6);
  EXPECT_EQ(guard.json()["passed_over"], Json::parse("[[1,3],[5,7]]"));
  const auto last = guard.judge(8, kNan, 1);
  EXPECT_EQ(last.action, Action::stop);
  EXPECT_EQ(last.words,
            "the loss is nan and the gradient norm is 1; 3 steps before it were passed over "
            "(train.nonfinite_limit)");
}

TEST(Guard, RewindsToOneCheckpointAreBounded) {
  const launcher::TrainConfig config = config_of("rewind");
  launcher::StepGuard guard(config);
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(guard.judge(8 + round, kNan, 1).action, Action::rewind);
    guard.went_back(5, 8 + round);
  }
  EXPECT_EQ(guard.passed_over(), 5);
  guard.saved(10);  // of the state that was gone back to
  EXPECT_EQ(guard.judge(11, kNan, 1).action, Action::stop);
  launcher::StepGuard other(config);
  for (int64_t i = 1; i < 30; i += 3) {
    EXPECT_EQ(other.judge(i, kNan, 1).action, Action::rewind);
    other.went_back(i - 1, i);
    other.saved(i + 1);
  }
  EXPECT_EQ(other.passed_over(), 10);
}

TEST(Guard, AStateThatIsNotFiniteCannotBeSkipped) {
  const launcher::TrainConfig stop = config_of("stop"), skip = config_of("skip"),
                              rewind = config_of("rewind");
  EXPECT_EQ(launcher::StepGuard(stop).judge_state("w is nan").action, Action::stop);
  EXPECT_EQ(launcher::StepGuard(rewind).judge_state("w is nan").action, Action::rewind);
  const auto finding = launcher::StepGuard(skip).judge_state("w is nan");
  EXPECT_EQ(finding.action, Action::stop);
  EXPECT_EQ(finding.words,
            "w is nan; an update that is made cannot be skipped: train.on_nonfinite=rewind goes back to the "
            "last checkpoint");
}

TEST(Guard, SpikesAreToldOnceAWindow) {
  const launcher::TrainConfig config = config_of("stop");
  launcher::StepGuard guard(config);
  EXPECT_EQ(guard.judge(1, 2, 500).words, "");  // nothing to compare with yet
  go_on(guard, 2, 16);
  auto finding = guard.judge(17, 2, 11);
  EXPECT_EQ(finding.action, Action::go_on);
  EXPECT_EQ(finding.words, "the gradient norm is 11, 11 times its median of the last 16 steps");
  EXPECT_EQ(guard.judge(18, 2, 12).words, "");
  go_on(guard, 19, 40);
  EXPECT_EQ(guard.judge(41, 30, 12).words,
            "the loss is 30, 15 times its median of the last 20 steps, and the gradient norm is 12, 12 times "
            "its median of the last 20 steps");
  launcher::StepGuard falling(config);  // a loss that goes down is none
  for (int64_t i = 1; i <= 20; ++i) falling.judge(i, 0.04f, 1);
  EXPECT_EQ(falling.judge(21, -0.56f, 1).words, "");
  EXPECT_EQ(falling.judge(22, 0.56f, 1).words, "the loss is 0.56, 14 times its median of the last 20 steps");
  const launcher::TrainConfig off = config_of("stop", "off");
  launcher::StepGuard silent(off);
  go_on(silent, 1, 20);
  EXPECT_EQ(silent.judge(21, 2, 1e6f).words, "");
}

TEST(Guard, LimitsAreThoseOfTheJudgement) {
  const launcher::TrainConfig config = config_of("stop", "skip");
  launcher::StepGuard guard(config);
  compiler::StepInput input;
  guard.limit(input);
  EXPECT_EQ(input.norm_limit, std::numeric_limits<float>::max());
  go_on(guard, 1, 20);
  guard.limit(input);
  EXPECT_EQ(input.norm_limit, 10.0f);
  EXPECT_EQ(input.loss_limit, 20.0f);
  EXPECT_EQ(guard.judge(21, 2, 10).action, Action::go_on);
  EXPECT_EQ(guard.judge(22, 2, 10.000001f).action, Action::skip);
  EXPECT_EQ(guard.judge(23, 20.00001f, 1).action, Action::skip);
  EXPECT_EQ(guard.judge(24, -1e6f, 1).action, Action::go_on);
  const launcher::TrainConfig warns = config_of("stop", "warn");  // a warning holds nothing back
  launcher::StepGuard other(warns);
  go_on(other, 1, 20);
  other.limit(input = {});
  EXPECT_EQ(input.norm_limit, std::numeric_limits<float>::max());
}

TEST(Guard, ACheckpointKeepsWhatDecides) {
  const launcher::TrainConfig config = config_of("skip", "skip");
  launcher::StepGuard guard(config), other(config);
  for (int64_t i = 1; i <= 30; ++i)
    guard.judge(i, 2 + 0.1f * static_cast<float>(i % 7), 1 + 0.3f * static_cast<float>(i % 5));
  guard.judge(31, kNan, 1);
  other.restore(Json::parse(guard.json().dump()));
  EXPECT_EQ(other.json(), guard.json());
  compiler::StepInput a, b;
  guard.limit(a), other.limit(b);
  EXPECT_EQ(a.norm_limit, b.norm_limit);
  EXPECT_EQ(a.loss_limit, b.loss_limit);
  EXPECT_EQ(other.passed_over(), 1);
  for (const char* text : {"null", "{}", "[1]", R"({"losses": ["x"]})"}) {
    other.restore(Json::parse(text));
    EXPECT_EQ(other.passed_over(), 0) << text;
  }
}

}  // namespace
}  // namespace lockstep
