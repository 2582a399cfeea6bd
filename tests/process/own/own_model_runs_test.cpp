// A family of models and a task of a library (compile.load_ops): a config trains, plans, resumes, replays and
// generates with them on any mesh, and their keys are checked as trainrun's own.
#include "tests/support/real_run.h"

namespace lockstep::tests {
namespace {

class OwnModelRuns : public RealRun {
 protected:
  void SetUp() override {
    RealRun::SetUp();
    write_tiny();
    std::filesystem::copy_file(OWN_MODEL, "mine.so");
    write_config(R"("features": 8, "pairs": 2)");
  }
  void write_config(const std::string& options, const std::string& task = R"("temperature": 0.5)") {
    scratch_.write("mine.json", str(R"({"name": "run", "compile": {"load_ops": ["./mine.so"]},
      "model": {"kind": "pair", "vocab": 64, "context": 16, )",
                                    options, R"(}, "task": {)", task, R"(},
      "data": {"kind": "tokens", "paths": ["tokens.bin"], "validation": 0.1}, "batch": {"global": 12, "micro": 2},
      "train": {"steps": 8}, "optim": {"lr": 1e-2}, "checkpoint": {"every": 4}, "log": {"every": 1}})"));
  }
  std::string library() const { return scratch_.path("mine.so"); }
  std::string named() const { return "--compile.load_ops=[" + library() + "]"; }
  void refused(const std::vector<std::string>& words, const std::vector<std::string>& parts) {
    const auto result = trainrun(words);
    EXPECT_EQ(result.code, kExitUser) << result.output;
    for (const auto& part : parts) EXPECT_HAS(result.output, part);
  }
  std::string output(const std::vector<std::string>& words) {
    const auto result = trainrun(words);
    EXPECT_EQ(result.code, kExitOk) << result.output;
    return result.output;
  }
};

TEST_F(OwnModelRuns, TrainsWithTheSameBitsOnAnyDataMesh) {
  train({"--nproc", "1", "mine.json", "--name=one"});
  train({"--nproc", "3", "mine.json", "--name=three"});
  train({"--simulate", "2", "mine.json", "--name=shards", "--mesh.dim_names=[\"dp_shard\"]"});
  train({"--simulate", "2", "mine.json", "--name=tp", "--mesh.dim_names=[\"tp\"]", "--mesh.shape=[2]"});
  expect_same_run("three", "one");
  expect_same_run("shards", "one");
  EXPECT_EQ(column(metrics("one"), "right").size(), 8u);
  EXPECT_LT(std::stod(metrics("one").back()["loss"]), std::stod(metrics("one").front()["loss"]));
  EXPECT_NEAR(std::stod(metrics("tp").back()["loss"]), std::stod(metrics("one").back()["loss"]), 1e-3);
  // An option of the family and one of the task, spaced and joined, make another run.
  train({"--nproc", "1", "mine.json", "--name=other", "--model.pairs", "4", "--task.temperature=1.0"});
  EXPECT_NE(column(metrics("other"), "loss"), column(metrics("one"), "loss"));
  EXPECT_HAS(file_text("runs/other/config.json"), "\"pairs\": 4");
}

TEST_F(OwnModelRuns, ResumesPlansReplaysAndGenerates) {
  train({"--nproc", "1", "mine.json", "--name=whole"});
  train({"--nproc", "1", "mine.json", "--train.steps=4"});
  train({"--nproc", "2", "mine.json"});
  EXPECT_EQ(final_hash("run"), final_hash("whole"));
  EXPECT_HAS(output({"plan", "--long", "--nproc", "2", "mine.json", named()}), "all_gather");
  const std::string stored = "runs/run/config.json";
  refused({"plan", stored},
          {"model.kind is \"pair\"", "compile.load_ops names libraries that are not open here", named()});
  refused({"--nproc", "1", stored}, {named()});
  refused({"plan", stored, "--compile.load_ops=[./mine.so]"}, {named()});
  refused({"report", "run"}, {named()});
  output({"plan", stored, named()});
  output({"--nproc", "1", stored, named(), "--train.steps=10"});
  output({"replay", "--step", "8", "run", named()});
  output({"replay", "--step", "8", "--nproc", "2", "run", named()});
  refused({"generate", "runs/run"}, {named()});
  output({"generate", "runs/run", named(), "--tokens", "4"});
  output({"report", "run", named()});
  EXPECT_HAS(file_text("runs/run/report.html"), "pair");
}

TEST_F(OwnModelRuns, ItsKeysAreCheckedAndShown) {
  write_config(R"("featurs": 8)");
  refused({"--nproc", "1", "mine.json"}, {"unknown key model.featurs; did you mean model.features?"});
  write_config(R"("features": "8")");
  refused({"--nproc", "1", "mine.json"}, {"model.features is \"8\", a string; it must be an integer"});
  write_config(R"("features": 7, "keep": 2)");
  refused({"plan", "mine.json", named()}, {"model.features is 7, which is odd", "model.keep is 2"});
  write_config(R"("depth": 3)");
  refused({"plan", "mine.json", named()}, {"model.depth is 3, but it belongs to model.kind gpt"});
  write_config(R"("features": 8)", R"("label_smoothing": 0.1)");
  refused({"plan", "mine.json", named()}, {"task.label_smoothing is 0.1", "task.kind is sharp_lm"});
  write_config(R"("features": 8)");
  refused({"plan", "mine.json", named(), "--model.kind=pare"}, {"pair"});
  refused({"plan", "mine.json", named(), "--model.fetures=4"}, {"did you mean model.features?"});
  EXPECT_HAS(output({"show", "mine.json", "--compile.load_ops=[./mine.so]"}), "\"features\": 8");
  EXPECT_HAS(output({"show", "--schema", "--compile.load_ops=[./mine.so]"}), "pair: features per token");
  EXPECT_HAS(output({"show", "--reference", "mine.json", named()}), "model.features");
  EXPECT_EQ(output({"show", "--reference", "mine.json"}).find("model.features"), std::string::npos);
  EXPECT_EQ(output({"show", "--reference"}).find("model.features"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::tests
