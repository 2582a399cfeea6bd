// What a folder of Hugging Face means, and what is not taken from a stranger's: weights beside weights,
// adapters, other dtypes, links, and the modes of what is exported.
#include <sys/stat.h>

#include "tests/error/hf_case.h"

namespace lockstep {
namespace {

// transformers 5.23: model.safetensors before its index, and nothing that neither names.
TEST_F(HuggingFaceFolders, WhichWeightsAFolderMeans) {
  auto index = [&](const Json& map) {
    scratch_.write("m/model.safetensors.index.json", Json{{"weight_map", map}}.dump());
  };
  auto read = [] {
    const checkpoint::TensorFiles files("m");
    Array x = make_array("x", DType::f32, {2}, Layout{}, Mesh{}, 0);
    files.read("x", x);
    return std::pair(x.data.as<float>()[0], join(files.told(), "|"));
  };
  file("m/a.safetensors", {{"x", {2}}, {"y", {2}}}, 1);
  index({{"x", "a.safetensors"}});
  // A tensor of a shard that the index does not name is read, as transformers reads it.
  EXPECT_NE(checkpoint::TensorFiles("m").find("y"), nullptr);
  EXPECT_EQ(read(), std::pair(1.0f, std::string()));
  file("m/consolidated.safetensors", {{"x", {2}}}, 3);
  EXPECT_EQ(read().second,
            "the weights are those of m/model.safetensors.index.json, as transformers reads the folder; "
            "consolidated.safetensors beside it is not read");
  file("m/model.safetensors", {{"x", {2}}}, 2);
  const std::string both =
      "the weights are those of m/model.safetensors, as transformers reads the folder; a.safetensors, "
      "consolidated.safetensors, model.safetensors.index.json beside it are not read";
  EXPECT_EQ(read(), std::pair(2.0f, both));
  index({{"x", "gone.safetensors"}});  // a stale one is not opened where it is not read
  EXPECT_EQ(read(), std::pair(2.0f, both));
  scratch_.write("m/pytorch_model.bin", std::string("pickle"));
  scratch_.write("m/model.fp16.safetensors", std::string("x"));
  EXPECT_NE(read().second.find("model.fp16.safetensors, model.safetensors.index.json and 1 more beside it"),
            std::string::npos)
      << read().second;
  // Named itself, a file is that file.
  EXPECT_EQ(checkpoint::TensorFiles("m/consolidated.safetensors").told(), std::vector<std::string>{});
  for (const char* gone : {"m/model.safetensors", "m/model.safetensors.index.json", "m/pytorch_model.bin"})
    std::filesystem::remove(gone);
  EXPECT_EQ(refusal([] { checkpoint::TensorFiles("m"); }),
            "m has neither model.safetensors nor model.safetensors.index.json; it has a.safetensors, "
            "consolidated.safetensors, model.fp16.safetensors: name the file that is meant, as "
            "m/a.safetensors");
}

// The choice is a line of the import, and config.json may make it.
TEST_F(HuggingFaceFolders, TheChoiceIsTold) {
  copy("gpt2");
  file("m/other.safetensors", {{"x", {2}}});
  EXPECT_EQ(imported("m"), "accepted");
  EXPECT_NE(
      said_.str().find("the weights are those of m/model.safetensors, as transformers reads the folder; "
                       "other.safetensors beside it is not read\n"),
      std::string::npos)
      << said_.str();
  Json config = config_of("gpt2");
  config["transformers_weights"] = "weights.safetensors";
  scratch_.write("m/config.json", config.dump());
  std::filesystem::rename("m/model.safetensors", "m/weights.safetensors");
  EXPECT_EQ(imported("m", {{"name", "named"}}), "accepted");
  EXPECT_EQ(checkpoint::read_manifest("runs/named/ckpt/step-0").state_hash,
            checkpoint::read_manifest("runs/run/ckpt/step-0").state_hash);
  EXPECT_EQ(exported({.run = "named", .folder = "out"}), "accepted");
  EXPECT_FALSE(hf::open_folder("out")->config.contains("transformers_weights"));
  EXPECT_EQ(imported("out", {{"name", "again"}}), "accepted");
  for (const Json& wrong : {Json("../weights.safetensors"), Json("weights.bin"), Json(7)}) {
    config["transformers_weights"] = wrong;
    scratch_.write("m/config.json", config.dump());
    EXPECT_EQ(imported("m", {{"name", "wrong"}}),
              "m/config.json: transformers_weights is " + wrong.dump() +
                  "; it must name a .safetensors file, or the index of several, beside it");
  }
}

TEST_F(HuggingFaceFolders, AdaptersOfPeft) {
  scratch_.write("adapter/adapter_config.json", std::string(R"({"peft_type": "LORA"})"));
  const std::string way =
      "merge them, by AutoPeftModelForCausalLM.from_pretrained(...).merge_and_unload() and "
      "save_pretrained, and name the folder that this writes";
  EXPECT_EQ(imported("adapter"), "adapter holds adapters of PEFT (adapter_config.json) and no model: " + way);
  copy("gpt2");
  scratch_.write("m/adapter_config.json", std::string(R"({"peft_type": "LORA"})"));
  EXPECT_EQ(imported("m"),
            "m holds adapters of PEFT (adapter_config.json) beside a model, which transformers computes with "
            "both: " +
                way + "; or move adapter_config.json away, and the weights alone are read");
}

// A dtype that no tensor here has spoils the tensor, not the file.
TEST_F(HuggingFaceFolders, TensorsOfOtherDTypes) {
  copy("gpt2");
  const checkpoint::TensorFiles files("m");
  Json header = Json::object();
  std::string data;
  auto add = [&](const std::string& name, const std::string& dtype, const Shape& shape,
                 const std::string& bytes) {
    header[name] = {
        {"dtype", dtype}, {"shape", shape}, {"data_offsets", {data.size(), data.size() + bytes.size()}}};
    data += bytes;
  };
  auto write = [&](const std::string& of_norm) {
    header = Json::object(), data.clear();
    for (const auto& type : files.types()) {
      Array array = make_array(type.fqn, DType::f32, type.shape, Layout{}, Mesh{}, 0);
      checkpoint::TensorFiles(kept("gpt2")).read(type.fqn, array);
      std::string bytes(reinterpret_cast<const char*>(array.data.data()), array.local_bytes());
      const bool norm = type.fqn == "transformer.ln_f.bias";
      if (norm && of_norm == "I8") bytes.resize(bytes.size() / 4);
      if (norm && of_norm == "F64") bytes += bytes;
      add(type.fqn, norm ? of_norm : "F32", type.shape, bytes);
    }
    add("quant.scale", "I8", {4}, "1234");
    add("quant.zero", "I16", {2}, "1234");
    add("quant.wide", "F8_E8M0", {2}, "12");
    const std::string json = header.dump();
    std::string length(8, '\0');
    for (int i = 0; i < 8; ++i)
      length[static_cast<size_t>(i)] = static_cast<char>(json.size() >> (8 * i) & 0xff);
    scratch_.write("m/model.safetensors", length + json + data);
  };
  write("F32");
  const std::string extra = imported("m");
  for (const char* part :
       {"0 missing, 3 extra, 0 of another shape or dtype", "\n  extra: quant.scale I8[4]",
        "\n  extra: quant.zero I16[2]", "\n  extra: quant.wide F8_E8M0[2]", "--leave=PATTERN for extra ones"})
    EXPECT_NE(extra.find(part), std::string::npos) << part << " in " << extra;
  EXPECT_EQ(imported("m", {{"name", "run"}}, {{}, {"quant.*"}}), "accepted");
  write("I8");
  EXPECT_EQ(imported("m", {{"name", "other"}}, {{}, {"quant.*"}}),
            "m/model.safetensors does not fit the model: 0 missing, 0 extra, 1 of another shape or dtype\n"
            "  differs: transformer.ln_f.bias is I8[32] in m/model.safetensors and f32[32] in the model");
  // Nothing is rounded unasked; the way out is said, and not one that does not help.
  write("F64");
  EXPECT_EQ(
      imported("m", {{"name", "other"}}, {{}, {"quant.*"}}),
      "m/model.safetensors does not fit the model: 0 missing, 0 extra, 1 of another shape or dtype\n"
      "  differs: transformer.ln_f.bias is f64[32] in m/model.safetensors and f32[32] in the model\n"
      "1 tensor is stored in a wider dtype than the model computes with, and nothing is rounded unasked: "
      "store them as float32, as model.float().save_pretrained(FOLDER) of transformers or tensor.float() "
      "of PyTorch does");
}

// A stranger's folder copies no file of the reader's: not into a run, and not into what is published.
TEST_F(HuggingFaceFolders, LinksOutOfAFolder) {
  copy("gpt2");
  scratch_.write("secret", std::string("key"));
  const std::string real = std::filesystem::canonical("secret").string();
  auto refused = [](const std::string& link, const std::string& to, const std::string& folder = "m") {
    return link + " leads by a link to " + to + ", outside of " + folder +
           ": it is not read, since what a model's folder holds is copied into the "
           "run "
           "and into what is exported; put the file itself there if it belongs to the model";
  };
  std::filesystem::create_symlink("../secret", "m/vocab.json");
  EXPECT_EQ(imported("m"), refused("m/vocab.json", real));
  std::filesystem::remove("m/vocab.json");
  std::filesystem::rename("m/model.safetensors", "weights.safetensors");
  std::filesystem::create_symlink("../weights.safetensors", "m/model.safetensors");
  EXPECT_EQ(imported("m"),
            refused("m/model.safetensors", std::filesystem::canonical("weights.safetensors").string()));
  std::filesystem::remove("m/model.safetensors");
  std::filesystem::rename("weights.safetensors", "m/model.safetensors");
  std::filesystem::rename("m/config.json", "config.json");
  std::filesystem::create_symlink("../config.json", "m/config.json");
  EXPECT_EQ(imported("m"), refused("m/config.json", std::filesystem::canonical("config.json").string()));
  std::filesystem::remove("m/config.json");
  std::filesystem::rename("config.json", "m/config.json");
  std::filesystem::remove_all("runs");

  // A cache of Hugging Face: every file is a link to a blob.
  std::filesystem::create_directories("hub/blobs");
  std::filesystem::create_directories("hub/snapshots/abc");
  scratch_.write("m/vocab.json", std::string("{}"));
  for (const char* name : {"config.json", "model.safetensors", "vocab.json"}) {
    std::filesystem::rename(str("m/", name), str("hub/blobs/", name, "-hash"));
    std::filesystem::create_symlink(str("../../blobs/", name, "-hash"), str("hub/snapshots/abc/", name));
  }
  EXPECT_EQ(imported("hub/snapshots/abc"), "accepted");
  EXPECT_TRUE(std::filesystem::exists("runs/run/hf/vocab.json"));
  EXPECT_FALSE(std::filesystem::is_symlink("runs/run/hf/vocab.json"));

  // A run that somebody gave.
  std::filesystem::remove("runs/run/hf/vocab.json");
  std::filesystem::create_symlink("../../../secret", "runs/run/hf/vocab.json");
  EXPECT_EQ(exported({.run = "run", .folder = "out"}),
            refused("runs/run/hf/vocab.json", real, "runs/run/hf"));
  EXPECT_FALSE(std::filesystem::exists("out/vocab.json"));
}

// What is exported is for others.
TEST_F(HuggingFaceFolders, ExportsFollowTheUmask) {
  copy("gpt2");
  scratch_.write("m/vocab.json", std::string("{}"));
  EXPECT_EQ(imported("m"), "accepted");
  for (const mode_t mask : {0022, 0027, 0077}) {
    const mode_t before = ::umask(mask);
    const std::string out = str("out", mask);
    EXPECT_EQ(exported({.run = "run", .folder = out}), "accepted");
    ::umask(before);
    for (const auto& entry : std::filesystem::directory_iterator(out))
      EXPECT_EQ(static_cast<unsigned>(entry.status().permissions()), 0666u & ~mask) << entry.path();
  }
  EXPECT_EQ(static_cast<unsigned>(std::filesystem::status("runs/run/hf/vocab.json").permissions()), 0600u);
}

}  // namespace
}  // namespace lockstep
