// Saves that the disk does not take: tried again, then the policy.
#include <gtest/gtest.h>

#include "checkpoint/storage/storage.h"
#include "launcher/loop/saves/saving.h"

namespace lockstep {
namespace {

struct Tries {
  explicit Tries(launcher::CheckpointConfig policy, int64_t failures = 1000)
      : left(failures), saving(policy, true, [this](double s) { slept.push_back(s); }) {}
  std::string operator()(bool must = false) {
    ::testing::internal::CaptureStderr();
    std::string out;
    try {
      out = saving(30, must,
                   [this] {
                     ++calls;
                     if (left-- > 0)
                       throw checkpoint::NotSaved(
                           "checkpoint of step 30 was not saved: No space left on device");
                   })
                ? "saved"
                : "went on";
    } catch (const checkpoint::NotSaved& error) { out = error.what(); }
    said = ::testing::internal::GetCapturedStderr();
    return out;
  }
  int64_t left, calls = 0;
  std::vector<double> slept;
  std::string said;
  launcher::Saving saving;
};

TEST(Saving, ATroubleThatPassesIsWaitedOut) {
  Tries tries(launcher::CheckpointConfig{}, 2);
  EXPECT_EQ(tries(), "saved");
  EXPECT_EQ(tries.slept, (std::vector<double>{1, 2}));
  EXPECT_NE(tries.said.find("No space left on device; tried again in 1 s (retry 1 of 3)"), std::string::npos)
      << tries.said;
  EXPECT_NE(tries.said.find("the checkpoint of step 30 is saved now (retry 2)"), std::string::npos)
      << tries.said;
  EXPECT_EQ(launcher::save_delay(6), 30);
  EXPECT_EQ(launcher::save_delay(1000), 30);
}

TEST(Saving, StopsWithTheWayOut) {
  Tries tries(launcher::CheckpointConfig{});
  EXPECT_EQ(tries(),
            "checkpoint of step 30 was not saved: No space left on device; 3 retries did not help; make room "
            "or mend the disk and start the same "
            "command again: it goes on from the last checkpoint; checkpoint.on_failure continue would go on "
            "without this one");
  EXPECT_EQ(tries.slept, (std::vector<double>{1, 2, 4}));
  launcher::CheckpointConfig none;
  none.retries = 0;
  Tries once(none);
  EXPECT_EQ(once(true),
            "checkpoint of step 30 was not saved: No space left on device; make room or mend the disk and "
            "start the same command again: it goes on "
            "from the last checkpoint");
  EXPECT_EQ(once.calls, 1);
}

TEST(Saving, GoesOnWhereThatIsThePolicyButNotAtTheEnd) {
  launcher::CheckpointConfig policy;
  policy.on_failure = "continue", policy.retries = 1;
  Tries tries(policy, 3);
  EXPECT_EQ(tries(), "went on");
  EXPECT_NE(tries.said.find("1 retry did not help; the run goes on WITHOUT this checkpoint"),
            std::string::npos)
      << tries.said;
  EXPECT_EQ(tries(), "saved");  // the third failure is retried
  Tries last(policy);
  EXPECT_EQ(last(true).find("checkpoint of step 30 was not saved"), 0u);
}

}  // namespace
}  // namespace lockstep
