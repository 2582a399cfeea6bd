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

// A config that only is looked at is read before its libraries are trusted: none of it opens one, whoever
// wrote it.
TEST_F(OwnOpsRuns, LookingAtAConfigOpensNone) {
  scratch_.write("evil.c",
                 str("#include <fcntl.h>\n__attribute__((constructor)) static void ran(void) { open(\"",
                     scratch_.path("ran"), "\", O_CREAT, 0600); }\n"));
  ASSERT_EQ(std::system("cc -shared -fPIC -o evil.so evil.c"), 0);
  const auto with = [&](const std::string& key, const std::string& value, const std::string& file) {
    Json config = Json::parse(file_text("c.json"));
    config[key == "load_ops" ? "compile" : "train"][key] =
        key == "load_ops" ? Json::array({value}) : Json("plugin:" + value);
    scratch_.write(file, config.dump());
  };
  with("load_ops", "./evil.so", "ops.json");
  with("device", "./evil.so", "device.json");
  const std::string looks =
      ", whose code would run as you, and this command only looks at the config: it opens what the command "
      "line "
      "names. Name it there if you trust it: `trainrun ";
  for (const char* command : {"plan", "show", "--dry-run"}) {
    std::vector<std::string> words = {command};
    if (command == std::string("show")) words.insert(words.end(), {"--graph", "step.svg"});
    auto ops = words, device = words;
    ops.push_back("ops.json"), device.push_back("device.json");
    refused(ops, "ops.json names compile.load_ops \"./evil.so\"" + looks);
    refused(ops, "--compile.load_ops=[" + scratch_.path("evil.so") +
                     "]`; or do without it: --compile.load_ops=[]");
    refused(device, "device.json names train.device \"plugin:./evil.so\"" + looks);
  }
  const auto shown = trainrun({"show", "ops.json"});
  EXPECT_EQ(shown.code, kExitOk) << shown.output;
  EXPECT_HAS(
      shown.output,
      "trainrun: warning: compile.load_ops names libraries that are not open here, so that models, tasks and "
      "keys "
      "of theirs are not known: a stored config opens none, nor does a command that only looks at one");
  EXPECT_HAS(shown.output, "\"context\": 16");
  trainrun({"show", "--reference", "ops.json"});
  trainrun({"show", "--schema", "ops.json"});
  EXPECT_FALSE(std::filesystem::exists("ran"));
  refused({"plan", "ops.json", "--compile.load_ops=[./evil.so]"}, "lockstep_op_library");
  EXPECT_TRUE(std::filesystem::exists("ran")) << "named, it is opened";
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
