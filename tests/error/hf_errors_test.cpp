// Every refusal of import-hf and export-hf, on its words.
#include "tests/error/hf_case.h"

namespace lockstep {
namespace {

TEST(HuggingFaceErrors, ConfigsThatSayAnotherFunction) {
  EXPECT_EQ(with("gpt2", {{"activation_function", "relu"}}),
            lines("gpt2",
                  "activation_function is \"relu\"; trainrun's gpt computes \"gelu_new\" or "
                  "\"gelu_pytorch_tanh\" alone"));
  EXPECT_EQ(
      with("gpt2", {{"n_inner", 100}}),
      lines("gpt2", "n_inner is 100 and n_embd is 32; trainrun's gpt has 4 times n_embd inside the MLP"));
  EXPECT_EQ(with("gpt2", {{"n_inner", 128}}), "accepted");
  const std::string alone = " alone; without it the model is another one beyond its first training length";
  EXPECT_EQ(
      with("llama", {{"rope_parameters", {{"rope_type", "yarn"}, {"factor", 8.0}}}}),
      lines("llama",
            "rope_parameters is {\"rope_type\":\"yarn\",\"factor\":8.0}; trainrun's llama computes rotary "
            "positions of rope_type \"default\", \"linear\" and \"llama3\"" +
                alone));
  EXPECT_EQ(
      with("qwen2", {{"rope_scaling", {{"type", "linear"}, {"factor", 4.0}}}}),
      lines("qwen2",
            "rope_parameters has rope_type \"default\", and rope_scaling has \"linear\": two models; mend "
            "one, or take it out\n  "
            "rope_scaling is {\"type\":\"linear\",\"factor\":4.0}; trainrun's qwen computes rotary "
            "positions of rope_type \"default\"" +
                alone));
  EXPECT_EQ(with("llama",
                 {{"rope_parameters", {{"rope_type", "llama3"}, {"factor", 8.0}, {"low_freq_factor", 1}}}}),
            lines("llama",
                  "rope_parameters has rope_type \"llama3\" and no high_freq_factor\n  "
                  "rope_parameters has rope_type \"llama3\" and no original_max_position_embeddings"));
  const Json plain{{"rope_type", "default"}, {"rope_theta", 10000.0}};
  EXPECT_EQ(
      with("llama", {{"rope_parameters", plain}, {"rope_scaling", {{"type", "linear"}, {"factor", 2.0}}}}),
      lines("llama",
            "rope_parameters has rope_type \"default\", and rope_scaling has \"linear\": two models; mend "
            "one, or take it out"));
  EXPECT_EQ(
      with("llama", {{"rope_parameters", plain}, {"rope_theta", 500000}}),
      lines("llama",
            "rope_parameters has rope_theta 10000.0, and the key rope_theta is 500000: two models; mend "
            "one, or take it out"));
  EXPECT_EQ(
      with("llama", {{"rope_parameters", {{"rope_type", "linear"}, {"factor", 4.0}}},
                     {"rope_scaling", {{"type", "linear"}, {"factor", 2.0}}}}),
      lines("llama",
            "rope_parameters has factor 4.0, and rope_scaling has 2.0: two models; mend one, or take it "
            "out"));
  EXPECT_EQ(with("llama", {{"rope_parameters", {{"rope_type", "linear"}, {"factor", 2}}},
                           {"rope_scaling", {{"type", "linear"}, {"factor", 2.0}}}}),
            "accepted");
  EXPECT_EQ(with("llama", {{"attention_bias", true}, {"mlp_bias", true}}),
            lines("llama",
                  "attention_bias is true; trainrun's llama computes false or null alone\n  "
                  "mlp_bias is true; trainrun's llama computes false or null alone"));
  EXPECT_EQ(with("qwen2", {{"use_sliding_window", true}}),
            lines("qwen2",
                  "use_sliding_window is true; trainrun's qwen sees all tokens before, in every block; only "
                  "mistral has a window"));
  EXPECT_EQ(with("qwen3", {{"layer_types", {"full_attention", "sliding_attention"}}}),
            lines("qwen3",
                  "layer_types is [\"full_attention\",\"sliding_attention\"]; trainrun's qwen computes "
                  "\"full_attention\" in every block"));
  EXPECT_EQ(with("vit", {{"qkv_bias", false}}),
            lines("vit", "qkv_bias is false; trainrun's vit computes true alone"));
}

TEST(HuggingFaceErrors, ConfigsThatAreNotWhole) {
  EXPECT_EQ(refusal([] { hf::model_of(Json::object(), "m/config.json"); }),
            "m/config.json has no model_type, so it is no config.json of a model of Hugging Face");
  EXPECT_EQ(
      with("gemma", {{"model_type", "gemma2"}}),
      "m/config.json: model_type is \"gemma2\"; trainrun reads gpt2, llama, qwen2, qwen3, mistral, gemma, "
      "bert, vit. Where the model computes what one of these does, write that model_type and its names of "
      "tensors; else write it in Python or C++, and load its .safetensors by ls.load_weights");
  EXPECT_EQ(
      with("bert", {{"architectures", {"BertForQuestionAnswering"}}}),
      lines("bert", "architectures is [\"BertForQuestionAnswering\"]; trainrun's bert is a BertForMaskedLM"));
  EXPECT_EQ(with("llama", {{"hidden_size", "32"}}),
            lines("llama", "hidden_size is \"32\"; it must be a whole number, which is model.width"));
  Json config = config_of("llama");
  config.erase("vocab_size");
  EXPECT_EQ(refusal([&] { hf::model_of(config, "m/config.json"); }),
            lines("llama", "vocab_size is missing; it says model.vocab"));
  const std::string unknown = lines("llama",
                                    "quantization_config is {\"bits\":4}, a key that trainrun does not know; "
                                    "if it changes nothing of what the model computes: "
                                    "--accept=quantization_config");
  EXPECT_EQ(with("llama", {{"quantization_config", {{"bits", 4}}}}), unknown);
  EXPECT_EQ(with("llama", {{"quantization_config", {{"bits", 4}}}}, {"quantization_config"}), "accepted");
  EXPECT_EQ(with("llama", {{"quantization_config", nullptr}}), "accepted");
}

// A key that no rule knows and that is off may turn off what the model has.
TEST(HuggingFaceErrors, KeysThatAreOff) {
  auto refused = [](const std::string& name, const std::string& key, const Json& value) {
    return with(name, {{key, value}}) ==
           lines(name,
                 str(key, " is ", value.dump(),
                     ", a key that trainrun does not know, and it may turn off what trainrun computes; if it "
                     "changes nothing of what the model computes: --accept=",
                     key));
  };
  for (const char* name : {"llama", "qwen2", "qwen3", "mistral", "gemma"})
    for (const auto& [key, value] : std::map<std::string, Json>{{"use_rope", false},
                                                                {"use_rotary", 0},
                                                                {"rotary_pct", 0.0},
                                                                {"partial_rotary_factor", 0},
                                                                {"is_causal", false},
                                                                {"attention_multiplier", 0},
                                                                {"residual_multiplier", 0.0},
                                                                {"scale_attn_weights", false},
                                                                {"position_embedding_type", ""},
                                                                {"use_rms_norm", false},
                                                                {"rotary_layers", Json::array()}})
      EXPECT_TRUE(refused(name, key, value)) << name << " " << key << ": " << with(name, {{key, value}});
  EXPECT_TRUE(refused("gpt2", "use_bias", false));
  EXPECT_TRUE(refused("gpt2", "is_causal", false));
  EXPECT_TRUE(refused("gpt2", "position_embedding_type", ""));
  EXPECT_TRUE(refused("qwen2", "attention_bias", false));
  EXPECT_TRUE(refused("qwen3", "use_qk_norm", false));
  EXPECT_TRUE(refused("bert", "use_bias", false));
  EXPECT_TRUE(refused("vit", "use_bias", false));
  EXPECT_TRUE(refused("vit", "use_absolute_position_embeddings", false));
  EXPECT_EQ(with("llama", {{"use_rope", false}}, {"use_rope"}), "accepted");

  // What none of them computes, or what has no part in it, says nothing where it is off.
  for (const char* name : {"gpt2", "llama", "qwen2", "qwen3", "mistral", "gemma", "bert", "vit"})
    for (const auto& [key, value] : std::map<std::string, Json>{{"use_cache", false},
                                                                {"is_encoder_decoder", false},
                                                                {"output_attentions", false},
                                                                {"output_hidden_states", false},
                                                                {"return_dict", false},
                                                                {"torchscript", false},
                                                                {"use_bfloat16", false},
                                                                {"pruned_heads", Json::object()},
                                                                {"quantization_config", Json::object()},
                                                                {"layerdrop", 0.0},
                                                                {"embedding_dropout", 0.0},
                                                                {"chunk_size_feed_forward", 0},
                                                                {"do_sample", false},
                                                                {"min_length", 0},
                                                                {"max_length", 20},
                                                                {"no_repeat_ngram_size", 0},
                                                                {"num_experts", 0},
                                                                {"router_aux_loss_coef", 0.0},
                                                                {"final_logit_softcapping", nullptr},
                                                                {"rope_scaling_of_nobody", nullptr},
                                                                {"pad_token_id", 0}})
      EXPECT_EQ(with(name, {{key, value}}), "accepted") << name << " " << key;
  for (const char* name : {"llama", "mistral", "gemma", "qwen3"})
    for (const char* key : {"attention_bias", "mlp_bias", "use_bias", "is_decoder"})
      EXPECT_EQ(with(name, {{key, false}}), "accepted") << name << " " << key;
  for (const char* name : {"gpt2", "llama", "qwen2", "gemma"})
    EXPECT_EQ(with(name, {{"use_sliding_window", false}}), "accepted") << name;
  EXPECT_EQ(with("llama", {{"use_qk_norm", false}}), "accepted");
  EXPECT_EQ(with("llama", {{"rope_scaling", nullptr}}), "accepted");
  EXPECT_EQ(with("bert", {{"is_causal", false}}), "accepted");
  EXPECT_EQ(with("gpt2", {{"use_rope", false}}), "accepted");
  EXPECT_EQ(with("vit", {{"tie_word_embeddings", false}}), "accepted");
}

// What changes training alone is said.
TEST(HuggingFaceErrors, TrainingThatDiffersIsTold) {
  Json config = config_of("gpt2");
  config["embd_pdrop"] = 0.2;
  const auto model = hf::model_of(config, "m/config.json");
  EXPECT_EQ(model.options["dropout"], 0.1);
  EXPECT_EQ(model.told,
            (std::vector<std::string>{
                "embd_pdrop is 0.2; model.dropout is 0.1 everywhere, in training alone",
                "attn_pdrop is 0.1; here training drops no attention probabilities, which changes nothing of "
                "what the model computes"}));
}

TEST_F(HuggingFaceFolders, WhatIsNoModel) {
  EXPECT_EQ(imported("gpt2"),
            "no file or folder gpt2; import-hf reads what is on this machine and downloads nothing: name the "
            "folder of a model, as `hf download` or save_pretrained leaves it");
  std::filesystem::create_directory("m");
  EXPECT_EQ(imported("m"),
            "m: no config.json with a model_type lies there, so that the model is not known; name the folder "
            "that transformers wrote (weights whose names are FQNs are read by train.init_from)");
  scratch_.write("m/config.json", std::string("{"));
  EXPECT_EQ(imported("m").find("m/config.json: line 1, column "), 0u) << imported("m");
  for (const char* before : {"[", "{\"a\": ", "{\"model_type\": \"gpt2\", \"x\": ["}) {
    std::string deep;
    for (int i = 0; i < 100000; ++i) deep += before;
    scratch_.write("m/config.json", deep);
    EXPECT_NE(imported("m").find("nested deeper than 64 lists and sections"), std::string::npos)
        << imported("m");
  }
  std::string wide = "{\"model_type\": \"gpt2\"";
  for (int i = 0; i < 300000; ++i) wide += str(", \"k", i, "\": 0");
  scratch_.write("m/config.json", wide + "}");
  EXPECT_EQ(imported("m"), "m/config.json has an object of 300001 members; at most 65536 are read");
  scratch_.write("m/config.json", std::string("{\"model_type\": \"gpt2\", \"model_type\": \"bert\"}"));
  EXPECT_EQ(imported("m"), "m/config.json: key \"model_type\" is given twice in one section; keep one");
  scratch_.write("m/config.json", config_of("gpt2").dump());
  EXPECT_EQ(imported("m"),
            "m has neither model.safetensors nor model.safetensors.index.json; name the file or the folder "
            "that holds the weights");
  scratch_.write("m/pytorch_model.bin", std::string("pickle"));
  EXPECT_EQ(
      imported("m"),
      "m has neither model.safetensors nor model.safetensors.index.json; its pytorch_model.bin is a "
      "pickle, which runs what its author wrote and is not read: load it with transformers and write it "
      "with save_pretrained, which writes safetensors");
  EXPECT_EQ(imported(kept("gpt2"), {}),
            "import-hf: no name is given; --name=NAME names the run, which is written to runs/NAME");
  EXPECT_FALSE(std::filesystem::exists("runs"));
}

TEST_F(HuggingFaceFolders, TensorsThatDoNotFit) {
  const std::map<std::string, Shape> wrong = {
      {"transformer.wte.weight", {37, 32}}, {"transformer.wpe.weight", {8, 32}}, {"score.weight", {2, 32}}};
  scratch_.write("m/config.json", config_of("gpt2").dump());
  file("m/model.safetensors", wrong);
  const std::string text = imported("m");
  for (const char* part :
       {"m/model.safetensors does not fit the model: 26 missing, 1 extra, 1 of another shape or dtype\n",
        "  missing: transformer.h.0.attn.c_attn.weight f32[32,96]", "  extra: score.weight f32[2,32]",
        "  differs: transformer.wpe.weight is f32[8,32] in m/model.safetensors and f32[16,32] in the model\n",
        "\nimport-hf takes --draw=PATTERN for missing tensors, which are then drawn as for a new model, and "
        "--leave=PATTERN for extra ones"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\nin " << text;
  EXPECT_EQ(imported(kept("gpt2"), {{"name", "run"}, {"model.heads", "8"}}),
            "the model of the config is not that of the weights:\n  n_head is 4 in " + kept("gpt2") +
                "/config.json and model.heads is 8; set --model.heads=4");
  EXPECT_FALSE(std::filesystem::exists("runs"));
}

// The ways out that the message names.
TEST_F(HuggingFaceFolders, MissingTensorsAreDrawnAndExtraOnesLeft) {
  copy("vit");
  Json config = config_of("vit");
  std::vector<checkpoint::SafeTensor> tensors;
  std::string data;
  const checkpoint::TensorFiles files("m");
  for (const auto& type : files.types()) {
    const std::string name = type.fqn.starts_with("classifier") ? "other." + type.fqn : type.fqn;
    Array array = make_array(type.fqn, type.dtype, type.shape, Layout{}, Mesh{}, 0);
    files.read(type.fqn, array);
    tensors.push_back({.name = name, .dtype = type.dtype, .shape = type.shape});
    data.append(reinterpret_cast<const char*>(array.data.data()), array.local_bytes());
  }
  scratch_.write("m/model.safetensors", checkpoint::make_safetensors_header(tensors, {}) + data);
  EXPECT_NE(imported("m").find("2 missing, 2 extra, 0 of another"), std::string::npos);
  EXPECT_EQ(imported("m", {{"name", "run"}}, {{"classifier.*"}, {"other.**"}}), "accepted");
  EXPECT_NE(said_.str().find("2 tensors are not read (--leave): other.classifier."), std::string::npos)
      << said_.str();
  EXPECT_NE(said_.str().find("2 tensors are missing and drawn by train.seed: classifier.bias, ..."),
            std::string::npos)
      << said_.str();
  const Array head = checkpoint::read_tensor("runs/run/ckpt/step-0", "heads.head.weight");
  EXPECT_EQ(head.data.as<float>()[0], 0);
}

TEST_F(HuggingFaceFolders, TiedTensorsBuffersAndBareNames) {
  // As GPT2Model's older files: no prefix, masks, and the head stored again.
  auto write = [&](float head) {
    const checkpoint::TensorFiles files(kept("gpt2"));
    std::vector<checkpoint::SafeTensor> tensors;
    std::string data;
    auto add = [&](const std::string& name, const std::string& from, float scale) {
      const checkpoint::SafeTensor& stored = *files.find(from);
      Array array = make_array(name, DType::f32, stored.shape, Layout{}, Mesh{}, 0);
      files.read(from, array);
      for (int64_t i = 0; i < array.local_numel(); ++i) array.data.as<float>()[i] *= scale;
      tensors.push_back({.name = name, .dtype = DType::f32, .shape = stored.shape});
      data.append(reinterpret_cast<const char*>(array.data.data()), array.local_bytes());
    };
    for (const auto& type : files.types()) add(type.fqn.substr(12), type.fqn, 1);
    add("lm_head.weight", "transformer.wte.weight", head);
    add("h.0.attn.bias", "transformer.ln_f.bias", 1);
    scratch_.write("m/config.json", config_of("gpt2").dump());
    scratch_.write("m/model.safetensors", checkpoint::make_safetensors_header(tensors, {}) + data);
  };
  write(2);
  EXPECT_EQ(imported("m"),
            "m/model.safetensors: lm_head.weight and transformer.wte.weight have other values, but the model "
            "has one tensor for both (tie_word_embeddings)");
  write(1);
  EXPECT_EQ(imported("m"), "accepted");
  EXPECT_NE(said_.str().find("1 tensor is not read (a causal mask): transformer.h.0.attn.bias"),
            std::string::npos)
      << said_.str();
  std::ostringstream ignored;
  hf::import_run({kept("gpt2"), {{"name", "kept"}}, {}, {}}, ignored);
  EXPECT_EQ(checkpoint::read_manifest("runs/run/ckpt/step-0").state_hash,
            checkpoint::read_manifest("runs/kept/ckpt/step-0").state_hash);
}

TEST_F(HuggingFaceFolders, IndexesThatAreWrong) {
  auto opened = [&] { return refusal([] { checkpoint::TensorFiles("m"); }); };
  auto index = [&](const Json& map) {
    scratch_.write("m/model.safetensors.index.json", Json{{"weight_map", map}}.dump());
  };
  file("m/a.safetensors", {{"x", {2}}, {"y", {2}}});
  file("m/b.safetensors", {{"y", {2}}});
  index({{"x", "a.safetensors"}, {"z", "a.safetensors"}});
  EXPECT_EQ(opened(),
            "m/model.safetensors.index.json: z is said to be in m/a.safetensors, which does not have it");
  index({{"x", "a.safetensors"}, {"y", "b.safetensors"}});
  EXPECT_EQ(opened(), "y is in m/a.safetensors and in m/b.safetensors; one of them is wrong");
  index({{"x", "../a.safetensors"}});
  EXPECT_EQ(opened(),
            "m/model.safetensors.index.json: the file of x is \"../a.safetensors\"; it must be the name of a "
            ".safetensors file next to the index");
  index({{"x", "c.safetensors"}});
  EXPECT_EQ(
      opened(),
      "m/model.safetensors.index.json names c.safetensors, which is missing: the index is older than the "
      "files next to it, or a file is missing; fetch the folder anew, or name the file that is meant");
  scratch_.write("m/model.safetensors.index.json", std::string("[]"));
  EXPECT_EQ(opened(), "m/model.safetensors.index.json is no JSON object, so it is not an index of tensors");
}

TEST_F(HuggingFaceFolders, Exports) {
  EXPECT_EQ(
      exported({.run = "runs/none", .folder = "out"}),
      "runs/none is no run: there is neither runs/none/ckpt nor a step in it; export-hf takes runs/NAME, "
      "runs/NAME/best or a step folder; there is no folder runs here: go to where the run was started, or "
      "give its path");
  ASSERT_EQ(imported(kept("bert")), "accepted");
  EXPECT_EQ(exported({.run = "run", .folder = "out", .step = 7}),
            "runs/run/ckpt has no checkpoint of step 7; it has steps 0");
  EXPECT_EQ(exported({.run = "runs/run/ckpt/step-0", .folder = "out", .step = 3}),
            "--step is 3, and runs/run/ckpt/step-0 is the checkpoint of step 0; leave one of them out");
  EXPECT_EQ(exported({.run = "run", .folder = "out", .dtype = "int8"}),
            "--dtype is \"int8\"; it must be f32, bf16 or f16");
  scratch_.write("full/file", std::string("x"));
  EXPECT_EQ(exported({.run = "run", .folder = "full"}),
            "full is there already and is no empty folder; name another one");
  EXPECT_EQ(imported(kept("bert")),
            "runs/run has checkpoints already (runs/run/ckpt/step-0); choose another --name, or remove the "
            "folder");
  EXPECT_EQ(refusal([] { hf::family_of_kind("resnet", ""); }),
            "model.kind is \"resnet\", which has no name in transformers; export-hf writes gpt, llama, qwen, "
            "mistral, gemma, bert, bert_classifier, vit");
}

}  // namespace
}  // namespace lockstep
