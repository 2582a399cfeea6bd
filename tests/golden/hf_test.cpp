// Models in Hugging Face's format: imported they compute what transformers does, exported they are what they
// were. hf/ holds them, their logits, and the script that made both.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <sstream>

#include "checkpoint/tensor_files.h"
#include "core/base/error.h"
#include "launcher/hf/config.h"
#include "launcher/hf/export.h"
#include "launcher/hf/import.h"
#include "tests/support/hf_logits.h"
#include "tests/support/scratch_folder.h"

namespace lockstep {
namespace {

using tests::json_of;

constexpr double kTolerance = 1e-5;

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  std::stringstream out;
  out << file.rdbuf();
  return out.str();
}
std::string kept(const std::string& name) { return LOCKSTEP_GOLDEN_HF "/" + name; }

// All tensors as they are stored: dtype, shape, bytes.
std::map<std::string, std::string> tensors_of(const std::string& path) {
  const checkpoint::TensorFiles files(path);
  std::map<std::string, std::string> out;
  for (const auto& type : files.types()) {
    Array array = make_array(type.fqn, type.dtype, type.shape, Layout{}, Mesh{}, 0);
    files.read(type.fqn, array);
    out[type.fqn] = shape_text(type.dtype, type.shape) + ":" +
                    std::string(reinterpret_cast<const char*>(array.data.data()), array.local_bytes());
  }
  return out;
}
std::vector<std::string> names_of(const std::map<std::string, std::string>& tensors) {
  std::vector<std::string> out;
  for (const auto& [name, bytes] : tensors) out.push_back(name);
  return out;
}

class HuggingFace : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    previous_ = std::filesystem::current_path();
    std::filesystem::current_path(scratch_.path(""));
  }
  void TearDown() override { std::filesystem::current_path(previous_); }

  std::string imported(const std::string& path, const std::string& name) {
    std::ostringstream out;
    launcher::hf::import_run({path, {{"name", name}}, {}, {}}, out);
    return out.str();
  }
  void export_to(const std::string& name, const std::string& folder, const std::string& dtype) {
    std::ostringstream out;
    launcher::hf::export_run({name, folder, -1, 14000, dtype}, out);
  }
  // The dtype of the kept files, as export-hf names it.
  static std::string dtype_of(const std::string& name) {
    return json_of(kept(name) + "/config.json")["dtype"] == "bfloat16" ? "bf16" : "f16";
  }
  void expect_tensors(const std::string& folder) {
    const auto was = tensors_of(kept(GetParam())), is = tensors_of(folder);
    EXPECT_EQ(names_of(is), names_of(was));
    for (const auto& [name, bytes] : was) EXPECT_TRUE(is.contains(name) && is.at(name) == bytes) << name;
  }
  ScratchFolder scratch_;
  std::filesystem::path previous_;
};
INSTANTIATE_TEST_SUITE_P(Families, HuggingFace,
                         testing::Values("gpt2", "llama", "llama32", "linear", "qwen2", "qwen3", "mistral",
                                         "gemma", "bert", "bert_classes", "vit"),
                         [](const auto& given) { return given.param; });

TEST_P(HuggingFace, ComputesTheLogitsOfTransformers) {
  imported(kept(GetParam()), "run");
  const std::vector<double> expected = tests::flat(json_of(kept("logits.json"))[GetParam()]);
  const double worst = tests::largest_difference(tests::golden_logits("run", 0), expected);
  std::cout << GetParam() << ": largest difference of " << expected.size() << " logits " << worst << "\n";
  EXPECT_LE(worst, kTolerance);
}

TEST_P(HuggingFace, ComesBackByteForByte) {
  imported(kept(GetParam()), "run");
  export_to("run", "out", dtype_of(GetParam()));
  expect_tensors("out");
  EXPECT_EQ(json_of("out/config.json"), json_of(kept(GetParam()) + "/config.json"));
  for (const char* file : {"generation_config.json", "tokenizer.json", "tokenizer_config.json"})
    if (const std::string was = kept(GetParam()) + "/" + file; std::filesystem::exists(was)) {
      EXPECT_EQ(text_of(str("out/", file)), text_of(was)) << file;
    }
}

// A run that was not imported says all that its model is.
TEST_P(HuggingFace, IsWholeWithoutWhatWasCarriedAlong) {
  imported(kept(GetParam()), "run");
  std::filesystem::remove_all("runs/run/hf");
  export_to("runs/run", "out", dtype_of(GetParam()));
  expect_tensors("out");
  imported("out", "again");
  EXPECT_EQ(json_of("runs/again/config.json")["model"], json_of("runs/run/config.json")["model"]);
  // What transformers would drop in training where the key is missing, and is not dropped here.
  if (std::string(GetParam()).find("gpt2") != std::string::npos)
    for (const char* key : {"attn_pdrop", "resid_pdrop", "embd_pdrop"}) {
      EXPECT_EQ(json_of("out/config.json").value(key, -1.0),
                std::string(key) == "attn_pdrop"
                    ? 0.0
                    : json_of("runs/run/config.json")["model"]["dropout"].get<double>())
          << key;
    }
  const auto now = launcher::hf::model_of(json_of("out/config.json"), "now"),
             then = launcher::hf::model_of(json_of(kept(GetParam()) + "/config.json"), "then");
  EXPECT_EQ(launcher::hf::complete(*now.family, now.options, 0),
            launcher::hf::complete(*then.family, then.options, 0));
  EXPECT_EQ(json_of("runs/again/ckpt/step-0/manifest.json")["state_hash"],
            json_of("runs/run/ckpt/step-0/manifest.json")["state_hash"]);
}

// In f32 nothing is rounded, and what is rounded comes back from one import more.
TEST_P(HuggingFace, IsWidenedExactly) {
  imported(kept(GetParam()), "run");
  export_to("run", "wide", "f32");
  EXPECT_EQ(names_of(tensors_of("wide")), names_of(tensors_of(kept(GetParam()))));
  imported("wide", "again");
  export_to("again", "out", dtype_of(GetParam()));
  expect_tensors("out");
}

}  // namespace
}  // namespace lockstep
