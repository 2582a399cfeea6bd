// log.tensorboard through the real trainrun: event files of one rank, another one where a run goes on.
#include "tests/support/real_run.h"

namespace lockstep::tests {
namespace {

class Events : public RealRun {
 protected:
  static std::vector<std::string> files(const std::string& name) {
    std::vector<std::string> out;
    for (const auto& entry : std::filesystem::directory_iterator("runs/" + name))
      if (const std::string file = entry.path().filename(); file.starts_with("events.out.tfevents."))
        out.push_back(file_text(entry.path()));
    std::sort(out.begin(), out.end(),
              [](const auto& a, const auto& b) { return a.size() > b.size(); });  // the longer run first
    return out;
  }
};

TEST_F(Events, OneFileForEachAttemptAndNoneUnasked) {
  write_tiny();
  train({"--nproc", "2", "c.json", "--name=quiet", "--train.steps=2"});
  EXPECT_TRUE(files("quiet").empty());
  train({"--nproc", "2", "c.json", "--log.tensorboard=true", "--train.steps=6", "--log.every=1"});
  ASSERT_EQ(files("run").size(), 1u) << "two ranks, one file";
  train({"--nproc", "1", "c.json", "--log.tensorboard=true", "--train.steps=8", "--log.every=1"});
  const auto both = files("run");
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(occurrences(both[0], "train/loss"), 6);
  EXPECT_EQ(occurrences(both[1], "train/loss"), 2);
  EXPECT_EQ(occurrences(both[1], "pace/tokens_per_s"), 2);
  EXPECT_EQ(metrics("run").size(), 8u);
  // A run that has nothing left to do opens none.
  train({"--nproc", "1", "c.json", "--log.tensorboard=true", "--train.steps=8"});
  EXPECT_EQ(files("run").size(), 2u);
}

}  // namespace
}  // namespace lockstep::tests
