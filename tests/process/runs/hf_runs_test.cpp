// Models of Hugging Face in real runs: imported, trained on ranks, resumed, exported, and as initial weights.
#include "tests/support/npy.h"
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
  // A run of a stranger's: the folder of what it carries is a link to one of the reader's own.
  std::filesystem::rename("runs/tuned/hf", "mine");
  std::filesystem::create_directory_symlink("../../mine", "runs/tuned/hf");
  auto result_of_link = trainrun({"export-hf", "runs/tuned", "published"});
  EXPECT_EQ(result_of_link.code, kExitUser) << result_of_link.output;
  EXPECT_HAS(result_of_link.output, str("leads by a link to ", std::filesystem::canonical("mine").string()));
  EXPECT_HAS(result_of_link.output, ", outside of runs/tuned: it is not read");
  EXPECT_FALSE(std::filesystem::exists("published"));
  std::filesystem::remove("runs/tuned/hf");
  std::filesystem::rename("mine", "runs/tuned/hf");
  scratch_.write("precious/config.json", std::string("precious"));
  std::filesystem::create_directories("runs/led");
  std::filesystem::create_directory_symlink(scratch_.path("precious"), "runs/led/hf");
  result = trainrun({"import-hf", HF "/llama", "--name=led"});
  EXPECT_EQ(result.code, kExitUser) << result.output;
  EXPECT_HAS(result.output,
             "runs/led/hf is a link, and nothing is written behind one; remove it, or choose another --name");
  EXPECT_EQ(file_text("precious/config.json"), "precious");
  for (const char* file : {"config.json", "tokenizer.json"}) {
    const std::string path = str("runs/theirs/hf/", file);
    scratch_.write(path, std::string("precious"));
    result = trainrun({"import-hf", HF "/llama", "--name=theirs"});
    EXPECT_EQ(result.code, kExitUser) << result.output;
    EXPECT_HAS(result.output, str(path,
                                  " is there already, and the import would write it: it is left as it is; "
                                  "move runs/theirs/hf away, or choose another --name"));
    EXPECT_EQ(file_text(path), "precious");
    std::filesystem::remove(path);
  }
  result = trainrun({"import-hf", HF "/llama", "--name=tuned"});
  EXPECT_EQ(result.code, kExitUser);
  EXPECT_HAS(result.output, "runs/tuned has checkpoints already (runs/tuned/ckpt/step-");
  // Two at once: one writes the run, the other is refused.
  auto one = start({"import-hf", HF "/llama", "--name=both"}),
       two = start({"import-hf", HF "/llama", "--name=both"});
  const int codes[] = {one->wait(60), two->wait(60)};
  EXPECT_EQ(codes[0] + codes[1], kExitUser) << one->output() << two->output();
  EXPECT_EQ(trainrun({"ckpt", "verify", "runs/both"}).code, kExitOk);
}

TEST_F(HuggingFaceRuns, AFullDiskIsToldAndNothingIsLeft) {
  if (std::system("unshare -m true 2>/dev/null") != 0) GTEST_SKIP() << "a small disk of its own needs root";
  std::filesystem::create_directory("runs");
  Process process({"/usr/bin/unshare", "-m", "/bin/bash", "-c",
                   str("mount -t tmpfs -o size=64k none runs && ", TRAINRUN, " import-hf ", HF,
                       "/llama --name=full; code=$?; echo left: $(ls -A runs); exit $code")},
                  scratch_.path("out"), {{"LOCKSTEP_CACHE", KERNEL_CACHE}});
  EXPECT_EQ(process.wait(60), kExitUser) << process.output();
  EXPECT_HAS(process.output(),
             "cannot write runs/full/ckpt/step-0.tmp/rank-0.safetensors: No space left on device");
  EXPECT_HAS(process.output(), " are free there; free some space or save elsewhere\n");
  EXPECT_HAS(process.output(), "left:\n");
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

// A model of masked tokens as a classifier: what it lacks is drawn, what it has more is left.
TEST_F(HuggingFaceRuns, AnEncoderBecomesAClassifierAndGoesBack) {
  const Words import = {"import-hf", HF "/bert", "--name=classes", "--model.kind=bert_classifier",
                        "--model.classes=3"};
  auto with = [&](const Words& more) {
    Words out = import;
    out.insert(out.end(), more.begin(), more.end());
    return trainrun(out);
  };
  auto result = with({});
  EXPECT_EQ(result.code, kExitUser);
  EXPECT_HAS(result.output, "classifier.weight");
  EXPECT_HAS(result.output, "import-hf takes --draw=PATTERN for missing tensors");
  result = with({"--draw=classifier.*", "--draw=bert.pooler.**"});
  ASSERT_EQ(result.code, kExitOk) << result.output;
  EXPECT_HAS(result.output, "4 tensors are missing and drawn by train.seed: ");
  EXPECT_HAS(result.output, "(of tokens and pairs, which BertForSequenceClassification does not compute)");
  std::vector<int32_t> ids(24 * 16), lengths(24), labels(24);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>((i / 16 % 3) * 12 + i % 7);
  for (size_t i = 0; i < 24; ++i)
    lengths[i] = static_cast<int32_t>(i % 16 + 1), labels[i] = static_cast<int32_t>(i % 3);
  scratch_.write("ids.npy", npy("<i4", "24, 16", ids));
  scratch_.write("lengths.npy", npy("<i4", "24,", lengths));
  scratch_.write("labels.npy", npy("<i4", "24,", labels));
  const Words train_it = {"--nproc",
                          "2",
                          "runs/classes/config.json",
                          "--data.kind=arrays",
                          R"(--data.paths=["ids.npy","lengths.npy","labels.npy"])",
                          "--batch.global=12",
                          "--batch.micro=2",
                          "--train.steps=20",
                          "--log.every=1",
                          "--optim.lr=1e-2"};
  train(train_it);
  ASSERT_FALSE(metrics("classes").empty());
  EXPECT_LT(std::stod(metrics("classes").back().at("loss")),
            std::stod(metrics("classes").front().at("loss")));
  train({"export-hf", "runs/classes", "exported-classes"});
  const Json config = Json::parse(file_text("exported-classes/config.json"));
  EXPECT_EQ(config["architectures"], Json({"BertForSequenceClassification"}));
  EXPECT_EQ(config["id2label"].size(), 3u);
  train({"import-hf", "exported-classes", "--name=again"});
  EXPECT_EQ(Json::parse(file_text("runs/again/config.json"))["model"]["kind"], "bert_classifier");
}

// Names of classes come with a model and go with it.
TEST_F(HuggingFaceRuns, NamesOfClassesTravel) {
  std::filesystem::copy(HF "/bert_classes", "from");
  std::filesystem::copy(TOKENIZER, "from/tokenizer.json");
  train({"import-hf", "from", "--name=named"});
  const Json data = Json::parse(file_text("runs/named/config.json"))["data"];
  EXPECT_EQ(data["kind"], "jsonl");
  EXPECT_EQ(data["classes"], Json({"bad", "fair", "good"}));
  std::filesystem::remove_all("runs/named/hf");
  train({"export-hf", "runs/named", "to"});
  EXPECT_EQ(Json::parse(file_text("to/config.json"))["label2id"],
            Json({{"bad", 0}, {"fair", 1}, {"good", 2}}));
}

}  // namespace
}  // namespace lockstep::tests
