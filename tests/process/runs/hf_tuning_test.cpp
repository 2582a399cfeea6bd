// A model of Hugging Face tuned with adapters, end to end: imported, trained on two ranks, killed, resumed on
// three, exported; losses and logits are those of PEFT and transformers, kept by tests/golden/hf/tune.py.
#include "checkpoint/tensor_files.h"
#include "tests/support/hf_logits.h"
#include "tests/support/real_run.h"

namespace lockstep::tests {
namespace {

constexpr double kTolerance = 1e-5;
constexpr int kSteps = 6;

class HuggingFaceTuning : public RealRun, public testing::WithParamInterface<std::string> {
 protected:
  using Words = std::vector<std::string>;
  void SetUp() override {
    RealRun::SetUp();
    std::vector<uint16_t> tokens;
    for (uint32_t x = 3; tokens.size() < 3000; tokens.push_back(static_cast<uint16_t>(x)))
      x = (x * 5 + 7) % 37;
    scratch_.write("tokens.bin", tokens);
  }
  void import(const std::string& name, const Words& more) {
    Words words = {"import-hf",
                   HF "/" + GetParam(),
                   "--name=" + name,
                   "--train.lora.rank=2",
                   "--train.lora.alpha=4",
                   "--model.dropout=0",
                   "--optim.lr=1e-2",
                   "--optim.weight_decay=0.1",
                   "--data.order=sequential",
                   "--batch.global=4",
                   "--batch.micro=1",
                   str("--train.steps=", kSteps),
                   "--checkpoint.every=1",
                   "--log.every=1"};
    const Words tokens = {"--model.context=16", "--data.paths=tokens.bin", "--data.kind=tokens"},
                chat = {"--model.context=64", "--data.paths=" HF "/chat.jsonl", "--data.kind=jsonl",
                        "--data.pack=none"};
    for (const Words& some : {GetParam().starts_with("chat") ? chat : tokens, more})
      words.insert(words.end(), some.begin(), some.end());
    train(words);
  }
  // What tune.py targets.
  static Words targets() {
    if (GetParam() == "gpt2") return {R"(--train.lora.targets=["blocks.*.attn.qkv", "blocks.*.mlp.up"])"};
    if (GetParam() == "chat_llama") return {R"(--train.lora.targets=["blocks.*.attn.{q,v}"])"};
    return {};
  }
};
INSTANTIATE_TEST_SUITE_P(Families, HuggingFaceTuning, testing::Values("gpt2", "llama"),
                         [](const auto& given) { return given.param; });

// Of tokens, and of conversations of which what the assistant says is learnt, by the model's own tokenizer.
class HuggingFaceSft : public HuggingFaceTuning {};
INSTANTIATE_TEST_SUITE_P(Families, HuggingFaceSft,
                         testing::Values("gpt2", "llama", "chat_gpt2", "chat_llama"),
                         [](const auto& given) { return given.param; });

TEST_P(HuggingFaceSft, IsThatOfPeftOverKillsAndRanks) {
  const Json kept = json_of(HF "/tuned.json")[GetParam()];
  import("tuned", targets());
  auto result = trainrun({"--nproc", "2", "runs/tuned/config.json", "--checkpoint.async=false"},
                         {{"LOCKSTEP_FAULT", "kill:rank=1,step=4"}});
  EXPECT_EQ(result.code, kExitPeer) << result.output;
  result = trainrun({"--nproc", "3", "runs/tuned/config.json"});
  ASSERT_EQ(result.code, kExitOk) << result.output;
  EXPECT_HAS(result.output, "/runs/tuned/ckpt/step-3 (step 3");
  EXPECT_HAS(result.output, str(" parameters, ", kept["trained"].get<int64_t>(), " of them trained"));

  const std::vector<double> losses = flat(kept["losses"]);
  const auto lines = metrics("tuned");
  ASSERT_EQ(lines.size(), losses.size());
  for (size_t i = 0; i < losses.size(); ++i)
    EXPECT_NEAR(std::stod(lines[i].at("loss")), losses[i], kTolerance) << "step " << i + 1;
  EXPECT_LT(losses.back(), losses.front());

  train({"export-hf", "tuned", "merged"});
  if (std::filesystem::exists("merged/tokenizer_config.json")) {
    const Json words = json_of("merged/tokenizer_config.json");
    EXPECT_TRUE(words.contains("eos_token")) << "what was there stays";
    EXPECT_EQ(words.contains("chat_template"), GetParam().starts_with("chat")) << words;
    if (words.contains("chat_template")) {
      EXPECT_HAS(words["chat_template"].get<std::string>(), "'<|im_start|>' + message['role'] + '\\n'");
    }
  } else {
    EXPECT_FALSE(GetParam().starts_with("chat"));
  }
  train({"import-hf", "merged", "--name=again"});
  const std::vector<double> logits = flat(kept["logits"]);
  const double beside = largest_difference(golden_logits("tuned", kSteps), logits),
               merged = largest_difference(golden_logits("again", 0), logits);
  std::cout << GetParam() << ": largest difference of " << logits.size() << " logits: " << beside
            << " with adapters, " << merged << " merged\n";
  EXPECT_LE(beside, kTolerance);
  EXPECT_LE(merged, kTolerance);
}

// A run that began from an import has no hf/ of its own: the tokenizer that read its data is that of the import.
class HuggingFaceChat : public RealRun {};
TEST_F(HuggingFaceChat, ARunBegunFromAnImportExportsItsTokenizer) {
  train({"import-hf", HF "/chat_llama", "--name=imp", "--model.context=64", "--data.kind=jsonl",
         "--data.paths=" HF "/chat.jsonl", "--data.pack=none", "--batch.global=4", "--batch.micro=1"});
  train({"runs/imp/config.json", "--name=begun", "--train.init_from=runs/imp", "--train.steps=1"});
  ASSERT_FALSE(std::filesystem::exists("runs/begun/hf"));
  auto result = trainrun({"export-hf", "begun", "exported"});
  ASSERT_EQ(result.code, kExitOk) << result.output;
  EXPECT_EQ(result.output.find("no tokenizer"), std::string::npos) << result.output;
  EXPECT_EQ(file_text("exported/tokenizer.json"), file_text("runs/imp/hf/tokenizer.json"));
  EXPECT_HAS(json_of("exported/tokenizer_config.json")["chat_template"].get<std::string>(), "<|im_start|>");
  EXPECT_EQ(json_of("exported/config.json")["eos_token_id"],
            json_of("runs/imp/hf/config.json")["eos_token_id"]);
  std::filesystem::rename("runs/imp", "runs/moved");
  result = trainrun({"export-hf", "begun", "bare"});
  ASSERT_EQ(result.code, kExitOk) << result.output;
  EXPECT_HAS(result.output, "no tokenizer and no chat_template are in it: put the files of data.tokenizer, ");
  EXPECT_HAS(result.output, "runs/imp/hf, into ");
  EXPECT_HAS(result.output, "runs/begun/hf (tokenizer.json and what lies beside it), and export again\n");
  std::filesystem::copy("runs/moved/hf", "runs/begun/hf");
  train({"export-hf", "begun", "whole"});
  EXPECT_HAS(json_of("whole/tokenizer_config.json")["chat_template"].get<std::string>(), "<|im_start|>");
}

// What is trained of an import, and by which optimizer, is chosen when it is started first.
TEST_P(HuggingFaceTuning, AnImportIsTrainedAsTheRunSays) {
  import("chosen", {"--optim.kind=lion"});
  train({"runs/chosen/config.json"});
  train({"import-hf", HF "/" + GetParam(), "--name=plain", "--model.dropout=0", "--model.context=16"});
  const Words keys = {"--train.lora.rank=2",         "--train.lora.alpha=4",    "--optim.lr=1e-2",
                      "--optim.weight_decay=0.1",    "--data.paths=tokens.bin", "--data.kind=tokens",
                      "--data.order=sequential",     "--batch.global=4",        "--batch.micro=1",
                      str("--train.steps=", kSteps), "--log.every=1",           "--optim.kind=lion"};
  Words words = {"--nproc", "2", "runs/plain/config.json"};
  words.insert(words.end(), keys.begin(), keys.end());
  auto result = trainrun(words);
  ASSERT_EQ(result.code, kExitOk) << result.output;
  EXPECT_HAS(result.output, "/runs/plain/ckpt/step-0 (step 0");
  EXPECT_EQ(final_hash("plain"), final_hash("chosen"));
  // Again, from the checkpoint of another run.
  words = {"runs/plain/config.json", "--name=other", "--train.init_from=runs/plain/ckpt/step-0"};
  words.insert(words.end(), keys.begin(), keys.end());
  result = trainrun(words);
  EXPECT_HAS(result.output, "initial weights from runs/plain/ckpt/step-0");
  EXPECT_EQ(final_hash("other"), final_hash("chosen"));
  // Its model is still that of the weights.
  train({"import-hf", HF "/" + GetParam(), "--name=same"});
  result =
      trainrun({"runs/same/config.json", "--data.paths=tokens.bin", "--data.kind=tokens", "--model.eps=0.1"});
  EXPECT_EQ(result.code, kExitUser) << result.output;
  EXPECT_HAS(result.output, "model.eps");
}

// What PEFT reads: names, shapes and the words beside them.
TEST_P(HuggingFaceTuning, AdaptersAloneHaveTheNamesOfPeft) {
  import("tuned", {R"(--train.lora.targets=["**.attn.*"])", R"(--train.lora.also=["norm"])"});
  train({"export-hf", "tuned", "adapter", "--adapter", "--dtype=bf16"});
  const Json config = json_of("adapter/adapter_config.json");
  EXPECT_EQ(config["peft_type"], "LORA");
  EXPECT_EQ(config["task_type"], "CAUSAL_LM");
  EXPECT_EQ(config["r"], 2);
  EXPECT_EQ(config["lora_alpha"], 4);
  const bool gpt2 = GetParam() == "gpt2";
  EXPECT_EQ(config["fan_in_fan_out"], gpt2);
  EXPECT_EQ(config["target_modules"].size(), gpt2 ? 4u : 8u);
  EXPECT_EQ(config["modules_to_save"], Json::array({gpt2 ? "transformer.ln_f" : "model.norm"}));
  std::map<std::string, std::string> types;
  for (const auto& type : checkpoint::TensorFiles("adapter/adapter_model.safetensors").types())
    types[type.fqn] = shape_text(type.dtype, type.shape);
  const std::string module = gpt2 ? "base_model.model.transformer.h.1.attn.c_attn"
                                  : "base_model.model.model.layers.1.self_attn.k_proj";
  EXPECT_EQ(types[module + ".lora_A.weight"], "bf16[2,32]");
  EXPECT_EQ(types[module + ".lora_B.weight"], gpt2 ? "bf16[96,2]" : "bf16[16,2]");
  EXPECT_EQ(types[gpt2 ? "base_model.model.transformer.ln_f.bias" : "base_model.model.model.norm.weight"],
            "bf16[32]");
  EXPECT_EQ(types.size(), gpt2 ? 4 * 2 + 2u : 8 * 2 + 1u);

  train({"import-hf", HF "/" + GetParam(), "--name=plain"});
  const auto result = trainrun({"export-hf", "plain", "none", "--adapter"});
  EXPECT_EQ(result.code, kExitUser);
  EXPECT_HAS(result.output,
             "/ckpt/step-0 is of a run without adapters (train.lora.rank is 0); leave --adapter out");
}

}  // namespace
}  // namespace lockstep::tests
