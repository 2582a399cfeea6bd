// Checkpoints with a flipped byte, a missing end or a wrong offset: the newest whole one is taken, saying so;
// without one the run is refused and nothing is changed.
#include "tests/support/real_run.h"

namespace lockstep::tests {
namespace {

struct Damage {
  const char* name;
  void (*harm)(const std::string& step_dir);
  const char* said;      // what is said of it, once
  bool of_model = true;  // false: only the optimizer's state is concerned, which generate does not read
};

void PrintTo(const Damage& damage, std::ostream* out) { *out << damage.name; }

void flip(const std::string& path, int64_t at) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(at);
  char byte = static_cast<char>(file.get());
  file.seekp(at);
  file.put(static_cast<char>(byte ^ 1));
}
void edit_manifest(const std::string& step_dir, const std::function<void(Json& tensor)>& edit) {
  Json manifest = Json::parse(file_text(step_dir + "/manifest.json"));
  edit(manifest["tensors"]["norm.weight"]);
  std::ofstream(step_dir + "/manifest.json") << manifest.dump();
}
// Flips a bit in the middle of a tensor's first chunk.
void flip_in(const std::string& step_dir, const char* fqn) {
  Json chunk = Json::parse(file_text(step_dir + "/manifest.json"))["tensors"][fqn]["chunks"][0];
  flip(step_dir + "/" + chunk["file"].get<std::string>(),
       chunk["offset"].get<int64_t>() + chunk["bytes"].get<int64_t>() / 2);
}
std::string shard(const std::string& step_dir) { return step_dir + "/rank-1.safetensors"; }

const Damage kDamages[] = {
    {"flipped_byte_of_a_weight", [](const std::string& dir) { flip_in(dir, "norm.weight"); },
     "are damaged: checksum "},
    {"flipped_byte_of_a_moment", [](const std::string& dir) { flip_in(dir, "optim.norm.weight.exp_avg"); },
     "are damaged: checksum ", false},
    {"flipped_header", [](const std::string& dir) { flip(shard(dir), 40); }, ") is damaged: checksum "},
    {"truncated_shard",
     [](const std::string& dir) {
       std::filesystem::resize_file(shard(dir), std::filesystem::file_size(shard(dir)) - 1);
     },
     "rank-1.safetensors is truncated: "},
    {"missing_shard", [](const std::string& dir) { std::filesystem::remove(shard(dir)); },
     "rank-1.safetensors is missing ("},
    {"wrong_offset",
     [](const std::string& dir) {
       edit_manifest(dir, [](Json& tensor) {
         tensor["chunks"][0]["offset"] = tensor["chunks"][0]["offset"].get<int64_t>() + 64;
       });
     },
     "norm.weight"},
    {"offset_beyond_the_file",
     [](const std::string& dir) {
       edit_manifest(dir, [](Json& tensor) { tensor["chunks"][0]["offset"] = 1 << 30; });
     },
     "norm.weight"},
    {"empty_manifest",
     [](const std::string& dir) { std::filesystem::resize_file(dir + "/manifest.json", 0); },
     "manifest.json"},
};

class DamagedCheckpoint : public RealRun, public ::testing::WithParamInterface<Damage> {
 protected:
  void SetUp() override {
    RealRun::SetUp();
    write_tiny();
    train({"--nproc", "3", "c.json", "--train.steps=40"});
    ASSERT_EQ(checkpoints("run"), (std::vector<std::string>{"step-20", "step-40"}));
  }
};

TEST_P(DamagedCheckpoint, FallsBackSayingSoOrIsRefused) {
  const Damage& damage = GetParam();
  train({"--nproc", "1", "c.json", "--train.steps=60", "--name=alone"});
  std::filesystem::copy("runs/run", "runs/only", std::filesystem::copy_options::recursive);
  std::filesystem::remove_all("runs/only/ckpt/step-20");
  for (const char* run : {"run", "only"}) damage.harm(str("runs/", run, "/ckpt/step-40"));

  // The only one: refused, on any number of ranks, every time, and nothing is changed.
  auto before = files_of("only");
  for (int nproc : {1, 4}) {
    auto result = trainrun({"--nproc", str(nproc), "c.json", "--train.steps=60", "--name=only"});
    EXPECT_EQ(result.code, kExitUser) << result.output;
    EXPECT_EQ(occurrences(result.output, "ckpt holds 1 checkpoint and none is whole; nothing was changed:\n"),
              1)
        << result.output;
    EXPECT_EQ(occurrences(result.output, damage.said), 1) << result.output;
    EXPECT_EQ(occurrences(result.output, "UserError"), 1) << result.output;
    EXPECT_HAS(result.output, "restore the files, or start afresh under another --name");
    EXPECT_EQ(files_of("only"), before);
  }
  auto verified = trainrun({"ckpt", "verify", "runs/only"});
  EXPECT_EQ(verified.code, kExitUser);
  EXPECT_HAS(verified.output, damage.said);
  auto generated = trainrun({"generate", "runs/only", "--tokens=1"});
  EXPECT_EQ(generated.code, damage.of_model ? kExitUser : kExitOk);
  if (damage.of_model) EXPECT_HAS(generated.output, damage.said);

  // With an older one: the run goes on from there and ends with the bits of the run that was left alone.
  generated = trainrun({"generate", "runs/run", "--tokens=4"});
  EXPECT_EQ(generated.code, kExitOk) << generated.output;
  EXPECT_EQ(occurrences(generated.output, "the next older checkpoint is taken"), damage.of_model ? 1 : 0);
  for (const auto& words :
       {std::vector<std::string>{"ckpt", "reshard", "runs/run", "moved", "--ranks=2"},
        {"ckpt", "average", "runs/run", "runs/alone/ckpt/step-20", "mean"},
        {"--nproc", "2", "c.json", "--train.steps=1", "--name=from", "--train.init_from=runs/run"}}) {
    const auto other = trainrun(words);
    // Where sizes and headers are sound, it is found by those who read it.
    const bool by_sums = std::string(damage.name).starts_with("flipped_byte");
    if (!by_sums) EXPECT_EQ(other.code, kExitOk) << other.output;
    if (other.code != kExitOk) EXPECT_HAS(other.output, damage.said);
    for (const char* line : {"runs/run/ckpt/step-40 is damaged: ", "; step-20 is taken in its place\n"})
      EXPECT_EQ(occurrences(other.output, line), by_sums ? 0 : 1) << words[1] << other.output;
  }
  auto result = trainrun({"--nproc", "2", "c.json", "--train.steps=60"});
  ASSERT_EQ(result.code, kExitOk) << result.output;
  EXPECT_EQ(occurrences(result.output, "step-40 is damaged: "), 1) << result.output;
  EXPECT_HAS(result.output, damage.said);
  EXPECT_HAS(result.output, "ckpt/step-20, the newest whole checkpoint (step 20)\n");
  EXPECT_EQ(metrics("run").size(), 60u);
  for (const char* what : {"loss", "grad_norm"})
    EXPECT_EQ(column(metrics("run"), what), column(metrics("alone"), what)) << what;
  EXPECT_EQ(final_hash("run"), final_hash("alone"));
  // The damaged step was written anew.
  EXPECT_EQ(trainrun({"ckpt", "verify", "runs/run"}).code, kExitOk);
}

INSTANTIATE_TEST_SUITE_P(Kinds, DamagedCheckpoint, testing::ValuesIn(kDamages),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace lockstep::tests
