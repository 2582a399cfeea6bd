// compile.load_ops: a config trains with an op and a pass of a library, with one set of bits on any ranks; a
// stored config opens none that the command line does not name.
#include <sys/stat.h>

#include "tests/support/real_run.h"

namespace lockstep::tests {
namespace {

class OwnOpsRuns : public RealRun {
 protected:
  void SetUp() override {
    RealRun::SetUp();
    write_tiny();
    std::filesystem::copy_file(OWN_ACTIVATION, "mine.so");
  }
  static std::vector<std::string> with(std::vector<std::string> words, const std::string& name) {
    words.insert(words.end(),
                 {"c.json", "--name=" + name, "--train.steps=6", "--compile.load_ops=[./mine.so]",
                  "--compile.extra_passes=[mine::bump_for_gelu]"});
    return words;
  }
  void refused(const std::vector<std::string>& words, const std::string& part) {
    const auto result = trainrun(words);
    EXPECT_EQ(result.code, kExitUser) << result.output;
    EXPECT_HAS(result.output, part);
  }
};

TEST_F(OwnOpsRuns, AConfigTrainsWithThem) {
  train(with({"--nproc", "1"}, "one"));
  train(with({"--nproc", "2"}, "two"));
  train(with({"--simulate", "3", "--mesh.shape=[3]", "--mesh.dim_names=[\"dp_shard\"]"}, "shards"));
  train({"--nproc", "1", "c.json", "--name=gelu", "--train.steps=6"});
  for (const char* name : {"two", "shards"}) {
    EXPECT_EQ(column(metrics(name), "loss"), column(metrics("one"), "loss")) << name;
    EXPECT_EQ(final_hash(name), final_hash("one")) << name;
  }
  EXPECT_NE(final_hash("gelu"), final_hash("one"));
  // Stored is the absolute path, so that the run goes on from any folder.
  EXPECT_HAS(file_text("runs/one/config.json"), "\"" + scratch_.path("mine.so") + "\"");
  auto plan = trainrun(with({"plan", "--nproc", "2"}, "one"));
  EXPECT_EQ(plan.code, kExitOk) << plan.output;
}

TEST_F(OwnOpsRuns, AStoredConfigOpensNone) {
  train(with({"--nproc", "1"}, "run"));
  const std::string path = scratch_.path("mine.so");
  const std::string advice =
      "stored config opens no library. Name them on the command line, with absolute paths, "
      "if you trust them: `";
  refused({"--nproc", "1", "runs/run/config.json"}, advice);
  refused({"plan", "runs/run/config.json"},
          advice + "trainrun plan runs/run/config.json --compile.load_ops=[" + path +
              "]`; or do without them: "
              "--compile.load_ops=[]");
  refused({"generate", "runs/run"}, advice + "trainrun generate runs/run --compile.load_ops=[" + path + "]`");
  refused({"replay", "--step", "6", "--from-start", "runs/run"}, advice);
  refused(
      {"plan", "runs/run/config.json", "--compile.load_ops=[./mine.so]"},
      "with a relative path, and the config is stored (runs/run/config.json): for a stored config libraries "
      "are named with their absolute paths");
  const std::string named = "--compile.load_ops=[" + path + "]";
  auto plan = trainrun({"plan", "runs/run/config.json", named});
  EXPECT_EQ(plan.code, kExitOk) << plan.output;
  auto replayed = trainrun({"replay", "--step", "6", "--from-start", "runs/run", named});
  EXPECT_EQ(replayed.code, kExitOk) << replayed.output;
  auto longer = trainrun({"--nproc", "2", "runs/run/config.json", named, "--train.steps=8"});
  EXPECT_EQ(longer.code, kExitOk) << longer.output;
}

TEST_F(OwnOpsRuns, WhatIsNoneOrNotTrustedIsRefused) {
  refused(
      {"--nproc", "1", "c.json", "--compile.load_ops=[mine.so]"},
      "compile.load_ops \"mine.so\" names no place, and a library's owner is checked before it is opened; "
      "write a path, as in ./mine.so or /usr/lib/mine.so");
  refused({"--nproc", "1", "c.json", "--compile.load_ops=[./none.so]"}, "none.so: No such file");
  refused({"--nproc", "1", "c.json", "--compile.extra_passes=[mine::bump_for_gelu]"},
          "compile.extra_passes: no pass \"mine::bump_for_gelu\" is registered");
  chmod("mine.so", 0777);
  refused(with({"--nproc", "1"}, "open"), "is writable for every user");
}

}  // namespace
}  // namespace lockstep::tests
