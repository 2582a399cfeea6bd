// Models of Hugging Face in real runs: imported, trained on ranks, resumed, exported, and as initial weights.
#include "tests/support/real_run.h"

namespace lockstep::tests {
namespace {

class HuggingFaceRuns : public RealRun {
 protected:
  using Words = std::vector<std::string>;
  void SetUp() override {
    RealRun::SetUp();
    std::vector<uint16_t> tokens;
    for (uint32_t x = 3; tokens.size() < 3000; tokens.push_back(static_cast<uint16_t>(x)))
      x = (x * 5 + 7) % 37;
    scratch_.write("tokens.bin", tokens);
  }
  static Words trained(const std::string& config, Words more, int steps = 4) {
    Words out = {config,
                 "--data.paths=tokens.bin",
                 "--data.kind=tokens",
                 "--batch.global=4",
                 "--batch.micro=1",
                 str("--train.steps=", steps),
                 "--log.every=1",
                 "--optim.lr=1e-3"};
    out.insert(out.begin(), more.begin(), more.end());
    return out;
  }
  static void expect_falling(const std::string& name) {
    const auto lines = metrics(name);
    ASSERT_EQ(lines.size(), 4u);
    EXPECT_LT(std::stod(lines.back().at("loss")), std::stod(lines.front().at("loss")));
  }
};

TEST_F(HuggingFaceRuns, AnImportedModelIsTrainedOnRanksResumedAndExported) {
  auto result = trainrun({"import-hf", HF "/llama", "--name=tuned"});
  ASSERT_EQ(result.code, kExitOk) << result.output;
  EXPECT_HAS(result.output,
             "llama of 13280 parameters -> runs/tuned/ckpt/step-0\n"
             "trainrun runs/tuned/config.json --data.paths=... goes on from it\n");
  EXPECT_EQ(manifest("tuned", 0)["step"], 0);
  result = trainrun(trained("runs/tuned/config.json", {"--nproc", "2"}, 2));
  ASSERT_EQ(result.code, kExitOk) << result.output;
  EXPECT_HAS(result.output, "/runs/tuned/ckpt/step-0 (step 0");
  EXPECT_EQ(result.output.find("bits may change"), std::string::npos) << result.output;
  train(trained("runs/tuned/config.json", {"--nproc", "3"}));
  expect_falling("tuned");

  // The same in one go on one rank, from the folder as initial weights.
  Json config = Json::parse(file_text("runs/tuned/config.json"));
  config["name"] = "fresh";
  scratch_.write("fresh.json", config.dump());
  result = trainrun(trained("fresh.json", {"--init_from=" HF "/llama"}));
  ASSERT_EQ(result.code, kExitOk) << result.output;
  EXPECT_HAS(result.output, "initial weights from " HF "/llama");
  EXPECT_EQ(final_hash("fresh"), final_hash("tuned"));

  train({"export-hf", "runs/tuned", "exported", "--max-shard=20KB", "--dtype=bf16"});
  for (const char* file : {"model.safetensors.index.json", "tokenizer.json", "generation_config.json"})
    EXPECT_TRUE(std::filesystem::exists(str("exported/", file))) << file;
  train({"export-hf", "tuned", "start", "--step=0"});
  train({"import-hf", "start", "--name=again"});
  EXPECT_EQ(manifest("again", 0)["state_hash"], manifest("tuned", 0)["state_hash"]);
  result = trainrun({"import-hf", HF "/llama", "--name=tuned"});
  EXPECT_EQ(result.code, kExitUser);
  EXPECT_HAS(result.output, "runs/tuned has checkpoints already (runs/tuned/ckpt/step-");
}

// A packed tensor and transposed ones, over ranks that split weights.
TEST_F(HuggingFaceRuns, InitialWeightsByRulesOnAnyMesh) {
  train({"import-hf", HF "/gpt2", "--name=whole", "--model.dropout=0"});
  train(trained("runs/whole/config.json", {}));
  Json config = Json::parse(file_text("runs/whole/config.json"));
  for (const auto& [name, mesh] : {std::pair("split", R"({"shape": [3], "dim_names": ["dp_shard"]})"),
                                   std::pair("tensor", R"({"shape": [2], "dim_names": ["tp"]})")}) {
    config["name"] = name;
    config["mesh"] = Json::parse(mesh);
    scratch_.write("c.json", config.dump());
    train(
        trained("c.json", {"--nproc", name == std::string("split") ? "3" : "2", "--init_from=" HF "/gpt2"}));
    if (name == std::string("split")) { EXPECT_EQ(final_hash(name), final_hash("whole")); }
    EXPECT_NEAR(std::stod(metrics(name)[0]["loss"]), std::stod(metrics("whole")[0]["loss"]), 1e-4) << name;
  }
}

// Where the names are FQNs a folder or an index will do, without a config.json.
TEST_F(HuggingFaceRuns, InitialWeightsByNameFromAnIndex) {
  train({"import-hf", HF "/qwen3", "--name=whole"});
  train(trained("runs/whole/config.json", {}));
  std::filesystem::create_directory("bare");
  for (const auto& entry : std::filesystem::directory_iterator(HF "/qwen3"))
    if (entry.path().filename() != "config.json")
      std::filesystem::copy_file(entry.path(), "bare" / entry.path().filename());
  Json config = Json::parse(file_text("runs/whole/config.json"));
  for (const std::string path : {"bare", "bare/model.safetensors.index.json"}) {
    config["name"] = path == "bare" ? "folder" : "index";
    scratch_.write("c.json", config.dump());
    train(trained("c.json", {"--nproc", "2", "--init_from=" + path}));
    EXPECT_EQ(final_hash(config["name"].get<std::string>()), final_hash("whole"));
  }
}

// A model of another epsilon is another model.
TEST_F(HuggingFaceRuns, InitialWeightsOfAnotherModelAreRefused) {
  train({"import-hf", HF "/gpt2", "--name=whole"});
  for (int nproc : {1, 2}) {
    const auto result =
        trainrun(trained("runs/whole/config.json", {"--nproc", str(nproc), "--name=other", "--model.eps=1e-6",
                                                    "--init_from=" HF "/gpt2"}));
    EXPECT_EQ(result.code, kExitUser);
    EXPECT_HAS(result.output, "layer_norm_epsilon is 1e-05 in " HF
                              "/gpt2/config.json and model.eps is 1e-06; "
                              "set --model.eps=1e-05");
  }
}

}  // namespace
}  // namespace lockstep::tests
