// trainrun show --graph as a process: the file, what is said of it, and what is refused.
#include <gtest/gtest.h>
#include <regex>

#include "tests/support/real_run.h"

namespace lockstep::tests {
namespace {

class ShowGraph : public RealRun {
 protected:
  std::string refused(std::vector<std::string> words) {
    words.insert(words.begin(), "show");
    const auto result = trainrun(words);
    EXPECT_EQ(result.code, kExitUser) << result.output;
    return result.output;
  }
};

TEST_F(ShowGraph, ThePictureOfARank) {
  write_tiny();
  const std::vector<std::string> words{"show",   "--graph", "step.svg", "--nproc",           "2",
                                       "--rank", "1",       "c.json",   "--train.device=cpu"};
  const auto drawn = trainrun(words);
  ASSERT_EQ(drawn.code, kExitOk) << drawn.output;
  EXPECT_TRUE(std::regex_match(
      drawn.output,
      std::regex("step\\.svg: a step of rank 1, predicted by the roofline cpu: [0-9.]+ (us|ms), "
                 "of which [0-9.]+ (us|ms) are exposed communication\n")))
      << drawn.output;
  const std::string picture = file_text("step.svg");
  EXPECT_EQ(picture.substr(0, 5), "<?xml");
  EXPECT_HAS(picture, ">run on 2 ranks, mesh [dp_replicate=2]<");
  EXPECT_HAS(picture, "<title>exchange 0, lane_exchange along dp_replicate");
  trainrun(words);
  EXPECT_EQ(file_text("step.svg"), picture) << "the same file for the same step";
  auto slow = words;
  scratch_.write("slow.json", R"({"name": "<slow> & co", "contraction": {"fp32": 1e6}, "memory": 1e6,
    "inside": {"bandwidth": 1e9}, "ranks_per_node": 1})");
  slow.insert(slow.end(), {"--roofline", "slow.json"});
  EXPECT_HAS(trainrun(slow).output, "roofline <slow> & co: ");
  EXPECT_HAS(file_text("step.svg"), "predicted by the roofline &lt;slow&gt; &amp; co: ");
}

TEST_F(ShowGraph, WhatIsRefused) {
  write_tiny();
  EXPECT_EQ(refused({"--graph", "c.json"}),
            "trainrun: no config given; name one, as in: trainrun show configs/quickstart.json\n");
  EXPECT_EQ(
      refused({"--graph", "c.json", "c.json"}),
      "trainrun: --graph is \"c.json\", which does not end in .svg; it names the picture that is written, "
      "as in: trainrun show --graph step.svg configs/quickstart.json\n");
  EXPECT_EQ(
      refused({"--graph", "no/step.svg", "c.json", "--train.device=cpu"}),
      "trainrun: show --graph: \"no/step.svg\" cannot be written: No such file or directory; name a file in "
      "a folder that you may write to\n");
  std::filesystem::create_directory("folder.svg");
  EXPECT_HAS(refused({"--graph", "folder.svg", "c.json", "--train.device=cpu"}),
             "\"folder.svg\" cannot be written: ");
  EXPECT_EQ(refused({"--graph", "s.svg", "--rank", "2", "--nproc", "2", "c.json", "--train.device=cpu"}),
            "trainrun: --rank is 2, and the ranks of this plan are 0 to 1; give one of them, or a larger "
            "--nproc\n");
  EXPECT_EQ(refused({"--graph", "s.svg", "c.json", "--compile.backend=reference", "--train.device=cpu"}),
            "trainrun: show --graph: the reference backend has no calls whose time could be foretold; leave "
            "compile.backend at \"native\"\n");
  EXPECT_HAS(refused({"--graph", "s.svg", "--nproc", "6", "c.json", "--mesh.shape=[2,3]",
                      "--mesh.dim_names=[dp_replicate,tp]"}),
             "on the mesh [dp_replicate=2, tp=3]: 3 reasons\n");
  EXPECT_HAS(refused({"--nproc", "2", "c.json"}), "--nproc goes with --graph, which is not given");
  EXPECT_FALSE(std::filesystem::exists("s.svg"));
}

}  // namespace
}  // namespace lockstep::tests
