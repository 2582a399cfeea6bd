// Norms of each parameter and gradient, and what families that read samples call their pace.
#include <regex>

#include "tests/support/npy.h"
#include "tests/support/real_run.h"

namespace lockstep::tests {
namespace {

class Norms : public RealRun {
 protected:
  // Per line with norms: its step and all of them, as text.
  static std::vector<std::string> norms(const std::string& name) {
    static const std::regex norm(R"re("(grad|weight)_norm\.[^"]+": [^,}]+)re"), step(R"re("step": [0-9]+)re");
    std::vector<std::string> out;
    std::ifstream file("runs/" + name + "/metrics.jsonl");
    for (std::string line; std::getline(file, line);) {
      std::string all;
      for (std::sregex_iterator it(line.begin(), line.end(), norm), end; it != end; ++it)
        all += it->str() + "\n";
      std::smatch at;
      if (!all.empty() && std::regex_search(line, at, step)) out.push_back(at.str() + "\n" + all);
    }
    return out;
  }
};

TEST_F(Norms, AreTheSameOnAnyMeshAndComeWhenTheyAreWanted) {
  write_tiny();
  auto run = [&](const std::string& name, std::vector<std::string> words) {
    words.insert(words.end(),
                 {"c.json", "--name=" + name, "--train.steps=8", "--log.norms_every=4", "--log.every=3"});
    train(words);
    return norms(name);
  };
  const auto alone = run("one", {"--nproc", "1"});
  ASSERT_EQ(alone.size(), 2u);
  EXPECT_HAS(alone[0], "\"step\": 4\n");
  EXPECT_HAS(alone[1], "\"step\": 8\n");
  for (const char* what :
       {"grad_norm.blocks.0.attn.qkv.weight\": ", "weight_norm.blocks.1.mlp.down.bias\": "})
    EXPECT_EQ(occurrences(alone[0], what), 1) << alone[0];
  EXPECT_EQ(run("two", {"--nproc", "2"}), alone);
  EXPECT_EQ(run("three", {"--simulate", "3"}), alone);
  EXPECT_EQ(run("shards", {"--simulate", "3", "--mesh.shape=[3]", "--mesh.dim_names=[\"dp_shard\"]"}), alone);
  // The squares of all gradients' norms add up to the square of the whole's.
  static const std::regex gradient(R"re("grad_norm\.[^"]+": ([^,}\n]+))re");
  double squares = 0;
  for (std::sregex_iterator it(alone[0].begin(), alone[0].end(), gradient), end; it != end; ++it)
    squares += std::pow(std::stod((*it)[1]), 2);
  const auto whole = column(metrics("one"), "grad_norm");
  const auto fourth =
      std::find_if(whole.begin(), whole.end(), [](const auto& text) { return text.starts_with("4 "); });
  ASSERT_NE(fourth, whole.end());
  EXPECT_NEAR(std::sqrt(squares), std::stod(fourth->substr(2)), 1e-5 * std::stod(fourth->substr(2)));
  // They change no bit.
  train({"--nproc", "1", "c.json", "--name=without", "--train.steps=8"});
  EXPECT_TRUE(norms("without").empty());
  EXPECT_EQ(final_hash("without"), final_hash("one"));
}

TEST_F(Norms, FamiliesThatReadSamplesSaySamples) {
  std::vector<float> images(20 * 2 * 8 * 8);
  for (size_t i = 0; i < images.size(); ++i) images[i] = static_cast<float>(i % 7) * 0.1f;
  std::vector<int32_t> labels(20 * 8 * 8);
  for (size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<int32_t>(i % 3);
  scratch_.write("images.npy", npy("<f4", "20, 2, 8, 8", images));
  scratch_.write("labels.npy", npy("<i4", "20, 8, 8", labels));
  scratch_.write(
      "u.json",
      R"({"name": "run", "model": {"kind": "unet", "channels": 2, "size": 8, "classes": 3, "width": 4, "depth": 1},
    "data": {"kind": "arrays", "paths": ["images.npy", "labels.npy"]}, "batch": {"global": 4, "micro": 2},
    "train": {"steps": 6}, "log": {"every": 2}})");
  const auto result = trainrun({"--nproc", "1", "u.json"});
  ASSERT_EQ(result.code, kExitOk) << result.output;
  EXPECT_HAS(result.output, " samples/s  ETA ");
  EXPECT_EQ(result.output.find("tok"), std::string::npos) << result.output;
  const auto lines = metrics("run");
  ASSERT_FALSE(lines.empty());
  EXPECT_TRUE(lines.back().count("samples_per_s"));
  EXPECT_FALSE(lines.back().count("tokens_per_s"));
  // 4 samples a step, though the loss counts their pixels.
  EXPECT_NEAR(std::stod(lines.back().at("samples_per_s")) * std::stod(lines.back().at("step_ms")), 4000, 40);
  const auto plan = trainrun({"plan", "--long", "u.json"});
  EXPECT_HAS(plan.output, "samples                   4\n");
  EXPECT_HAS(plan.output, " samples/s, ");
  EXPECT_EQ(plan.output.find("tokens"), std::string::npos) << plan.output;
}

}  // namespace
}  // namespace lockstep::tests
