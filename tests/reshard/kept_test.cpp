// A checkpoint that version 0.1.0 wrote on 2 ranks, kept as files: this version reads it, lays it out anew,
// and goes on from it.
#include "tests/support/real_run.h"

namespace lockstep::tests {
namespace {

constexpr const char* kKeptHash = "07568fb6ab727a1a01372733d0793062";

// Made by: trainrun --nproc 2 c.json --name=kept --train.steps=3 and what model_flags() says, c.json and its
// data as write_tiny() writes them.
class Kept : public RealRun {
 protected:
  static std::string kept() { return str(LOCKSTEP_SOURCE_DIR, "/tests/reshard/kept/0.1.0"); }
  // A run whose only checkpoint is a copy of the kept one.
  static void copy_to(const std::string& name) {
    std::filesystem::create_directories(str("runs/", name, "/ckpt"));
    std::filesystem::copy(kept(), str("runs/", name, "/ckpt/step-3"));
  }
  static std::vector<std::string> model_flags() {
    return {"--model.width=16", "--model.depth=1", "--mesh.dim_names=[\"dp_shard\"]", "--mesh.zero=3",
            "--train.device=cpu"};
  }
  std::string ckpt(std::vector<std::string> words) {
    words.insert(words.begin(), "ckpt");
    auto result = trainrun(words);
    EXPECT_EQ(result.code, kExitOk) << join(words, " ") << "\n" << result.output;
    return result.output;
  }
};

TEST_F(Kept, ACheckpointOf010IsReadAndLaidOutAnew) {
  copy_to("kept");
  const auto shown = ckpt({"show", "runs/kept"});
  EXPECT_HAS(shown, "48 tensors, 13776 elements");
  EXPECT_HAS(shown, kKeptHash);
  EXPECT_HAS(shown, "producer     lockstep 0.1.0");
  EXPECT_HAS(ckpt({"verify", "runs/kept"}), "runs/kept/ckpt/step-3: whole");
  for (const char* ranks : {"1", "3"}) {
    const std::string out = str("runs/on", ranks);
    ckpt({"reshard", "runs/kept", out, "--ranks", ranks});
    EXPECT_HAS(ckpt({"verify", out}), str(out, "/ckpt/step-3: whole"));
    EXPECT_HAS(ckpt({"diff", "runs/kept", out}), str("equal: 48 tensors, state hash ", kKeptHash));
  }
}

TEST_F(Kept, ARunGoesOnFromACheckpointOf010OnOtherRanks) {
  write_tiny();
  for (const char* ranks : {"1", "3"}) {
    const std::string name = str("on", ranks);
    copy_to(name);
    std::vector<std::string> words{"--nproc", ranks, "c.json", str("--name=", name), "--train.steps=6"};
    for (const std::string& flag : model_flags()) words.push_back(flag);
    const auto result = trainrun(words);
    ASSERT_EQ(result.code, kExitOk) << result.output;
    EXPECT_HAS(result.output, str("(step 3, state ", kKeptHash, ")"));
    EXPECT_EQ(last_step(name), 6);
  }
  expect_same_run("on1", "on3");
}

}  // namespace
}  // namespace lockstep::tests
