// Wrong configs, data and weights: one clear error, exit code 2, and nothing of an earlier run is lost.
#include <cstring>
#include <limits>

#include "tests/support/real_run.h"

namespace lockstep::tests {
namespace {

using Words = std::vector<std::string>;

class BadInput : public RealRun {
 protected:
  // Refused with one error that says `part`, said once, whatever the number of ranks.
  void refused(Words words, const std::string& part) {
    auto result = trainrun(words);
    std::string command = join(words, " ");
    EXPECT_EQ(result.code, kExitUser) << command << "\n" << result.output;
    EXPECT_EQ(occurrences(result.output, part), 1) << command << "\nexpected once: " << part << "\nin:\n"
                                                   << result.output;
    EXPECT_LE(occurrences(result.output, "UserError"), 1) << command << "\n" << result.output;
    for (const char* word : {"InternalError", "PeerError", "terminate called", "MPI_ABORT", "  then "})
      EXPECT_EQ(occurrences(result.output, word), 0) << command << "\n" << result.output;
    EXPECT_EQ(processes_left(), std::vector<std::string>{}) << command;
  }
};

// Under somebody else's launcher every rank would start the whole run, in one folder.
TEST_F(BadInput, UnderAnotherLauncher) {
  write_tiny();
  for (const Variables& environment :
       {Variables{{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "4"}},
        Variables{{"PMIX_RANK", "1"}, {"SLURM_STEP_NUM_TASKS", "4"}}}) {
    auto result = trainrun({"c.json"}, environment);
    EXPECT_EQ(result.code, kExitUser) << result.output;
    EXPECT_EQ(
        occurrences(result.output, "this trainrun is one of 4 ranks that mpirun, srun or torchrun started"),
        1)
        << result.output;
    EXPECT_EQ(occurrences(result.output, "leave that launcher out, and use trainrun --nproc 4"), 1)
        << result.output;
  }
}

// Each is tried on a run that exists, with more steps asked for; the run is as it was, and goes on with the
// right command.
TEST_F(BadInput, ConfigAndDataLeaveTheRunAsItWas) {
  write_tiny();
  train({"--nproc", "2", "c.json", "--train.steps=20"});
  train({"--nproc", "1", "c.json", "--train.steps=30", "--name=alone"});
  auto before = files_of("run");
  scratch_.write("empty.bin", std::string());
  scratch_.write("short.bin", std::vector<uint16_t>(10, 1));
  scratch_.write("odd.bin", std::string(21, '\1'));
  scratch_.write(
      "type.json",
      R"({"name": "run", "data": {"kind": "tokens", "paths": ["tokens.bin"]}, "optim": {"lr": "fast", "clp": 1}, "batch": {"micro": 2.5}})");
  scratch_.write("cut.json", R"({"name": "run", "data": {)");
  for (int nproc : {1, 3}) {
    auto with = [&](Words more) {
      Words words = {"--nproc", str(nproc), "c.json", "--train.steps=30"};
      words.insert(words.end(), more.begin(), more.end());
      return words;
    };
    refused(with({"--optim.lrr=1"}),
            "trainrun: command line: unknown key optim.lrr in --optim.lrr=1; did you mean optim.lr?\n");
    refused(with({"--optim.lr=fast"}),
            "optim.lr is \"fast\", a string; it must be a number, like its default 0.0003\n");
    refused(with({"--model.heads=5"}),
            "model.width is 32, not a multiple of model.heads, 5; 30 and 35 are\n");
    refused(with({"--mesh.shape=[7]"}),
            str("mesh.shape [7] multiplies out to 7, but there are ", nproc, nproc == 1 ? " ranks" : " ranks",
                "; [", nproc, "] fits ", nproc, " ranks; or start with --nproc 7\n"));
    refused(with({"--batch.global=13"}),
            "batch.global is 13, not a multiple of batch.micro, 2; 12 and 14 are\n");
    refused(with({"--data.paths=[\"token.bin\"]"}),
            "data.paths: token.bin does not exist; nearest: tokens.bin\n");
    refused(with({"--data.paths=[\"empty.bin\"]"}), "data.paths: empty.bin is empty\n");
    refused(with({"--data.paths=[\"short.bin\"]"}),
            "data.paths: 9 training tokens in short.bin (1 more kept for validation), but one sequence needs "
            "model.context + 1 = 17");
    refused(
        with({"--data.paths=[\"odd.bin\"]"}),
        "data.paths: odd.bin has 21 bytes, which is not a multiple of 2 (data.dtype uint16); wrong dtype, "
        "or the file is cut short\n");
    refused(with({"--model.width=64"}), "ckpt/step-20 does not fit the model: 0 missing, 0 extra, ");
    refused(with({"--model.depth=3"}),
            "ckpt/step-20 does not fit the model: 36 missing, 0 extra, 0 of another shape or dtype\n");
  }
  refused({"type.json"}, "optim.lr is \"fast\", a string; it must be a number");
  refused({"type.json"}, "unknown key optim.clp; did you mean optim.clip?");
  refused({"type.json"}, "batch.micro is 2.5");
  refused({"cut.json"}, "cut.json");
  EXPECT_EQ(files_of("run"), before);
  train({"--nproc", "3", "c.json", "--train.steps=30"});
  EXPECT_EQ(final_hash("run"), final_hash("alone"));
}

// A token beyond the vocabulary, wherever it stands: found before the first step.
TEST_F(BadInput, TokenBeyondTheVocabulary) {
  write_tiny();
  std::string bytes = file_text("tokens.bin");
  auto with_token = [&](size_t index, uint16_t token) {
    std::string changed = bytes;
    std::memcpy(changed.data() + 2 * index, &token, 2);
    return changed;
  };
  scratch_.write("validation.bin", with_token(5990 - 600 + 20, 64));
  scratch_.write("training.bin", with_token(3000, 65535));
  for (int nproc : {1, 3}) {
    refused({"--nproc", str(nproc), "c.json", "--data.paths=[\"validation.bin\"]", "--name=v"},
            "token id 64 at validation.bin, token 5410 (byte 10820) >= model.vocab 64; set model.vocab and "
            "data.dtype (of a TokenFile .vocab and .dtype) to those of the file\n");
    EXPECT_EQ(checkpoints("v"), Words{});
    EXPECT_EQ(last_step("v"), 0);
    refused({"--nproc", str(nproc), "c.json", "--data.paths=[\"training.bin\"]", "--checkpoint.every=5",
             "--name=t"},
            "token id 65535 at training.bin, token 3000 (byte 6000) >= model.vocab 64");
    EXPECT_EQ(checkpoints("t"), Words{});
    EXPECT_EQ(last_step("t"), 0);
  }
  // With a file that is right the run goes on from a checkpoint, and says that its data is another.
  train({"c.json", "--data.order=sequential", "--name=t", "--train.steps=20"});
  scratch_.write("tokens.bin", with_token(3000, 63));
  auto result = trainrun({"--nproc", "2", "c.json", "--data.order=sequential", "--name=t"});
  EXPECT_EQ(result.code, kExitOk) << result.output;
  EXPECT_EQ(
      occurrences(
          result.output,
          "the data changed since the checkpoint: samples are not the same as before: tokens.bin changed"),
      1)
      << result.output;
}

// A safetensors file as names with dtype, shape and bytes.
struct Weight {
  Json shape;
  std::string bytes;
};
std::map<std::string, Weight> read_weights(const std::string& path) {
  std::string file = file_text(path);
  uint64_t size = 0;
  std::memcpy(&size, file.data(), 8);
  Json header = Json::parse(file.substr(8, size));
  std::map<std::string, Weight> out;
  for (const auto& [name, tensor] : header.items())
    if (name != "__metadata__") {
      size_t begin = tensor["data_offsets"][0], end = tensor["data_offsets"][1];
      out[name] = {tensor["shape"], file.substr(8 + size + begin, end - begin)};
    }
  return out;
}
std::string weights_text(const std::map<std::string, Weight>& weights) {
  Json header;
  std::string data;
  for (const auto& [name, weight] : weights) {
    header[name] = {{"dtype", "F32"},
                    {"shape", weight.shape},
                    {"data_offsets", {data.size(), data.size() + weight.bytes.size()}}};
    data += weight.bytes;
  }
  std::string text = header.dump();
  uint64_t size = text.size();
  return std::string(reinterpret_cast<const char*>(&size), 8) + text + data;
}

TEST_F(BadInput, InitialWeights) {
  scratch_.write(
      "g.json",
      str(R"({"name": "run", "model": {"kind": "gpt", "vocab": 256, "context": 64, "width": 64, "depth": 2, "heads": 4},
    "data": {"kind": "tokens", "paths": [")",
          GOLDEN, R"(/tokens.bin"]}, "batch": {"global": 8, "micro": 2}, "train": {"steps": 2}})"));
  const auto good = read_weights(GOLDEN "/init.safetensors");
  ASSERT_EQ(good.size(), 28u);
  auto missing = good, extra = good, shaped = good;
  missing.erase("blocks.1.mlp.up.bias");
  extra["blocks.1.mlp.up.scale"] = good.at("blocks.1.mlp.up.bias");
  shaped["norm.weight"].shape = {8, 8};
  scratch_.write("good.safetensors", weights_text(good));
  scratch_.write("missing.safetensors", weights_text(missing));
  scratch_.write("extra.safetensors", weights_text(extra));
  scratch_.write("shaped.safetensors", weights_text(shaped));
  scratch_.write("cut.safetensors", weights_text(good).substr(0, 100000));
  auto poisoned = good;
  const float values[] = {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()};
  std::memcpy(poisoned["norm.weight"].bytes.data() + 4 * 7, &values[0], 4);
  std::memcpy(poisoned["norm.weight"].bytes.data() + 4 * 9, &values[1], 4);
  scratch_.write("poisoned.safetensors", weights_text(poisoned));
  scratch_.write("text.safetensors", std::string("these are no weights, but words\n"));
  for (int nproc : {1, 3}) {
    auto with = [&](const char* file) {
      return Words{"--nproc", str(nproc), "g.json", str("--init_from=", file)};
    };
    refused(with("missing.safetensors"),
            "missing.safetensors does not fit the model: 1 missing, 0 extra, 0 of another shape or dtype\n  "
            "missing: blocks.1.mlp.up.bias "
            "f32[256]; nearest in ");
    refused(with("extra.safetensors"),
            "extra.safetensors does not fit the model: 0 missing, 1 extra, 0 of another shape or dtype\n  "
            "extra: blocks.1.mlp.up.scale "
            "f32[256]; nearest in ");
    refused(with("shaped.safetensors"),
            "shaped.safetensors does not fit the model: 0 missing, 0 extra, 1 of another shape or dtype\n  "
            "differs: norm.weight is "
            "f32[8,8] in ");
    refused(with("cut.safetensors"), "cut.safetensors: ");
    refused(with("poisoned.safetensors"),
            "poisoned.safetensors: norm.weight[7] is nan, and so is 1 more value of the state; weights must "
            "be finite numbers\n");
    refused(with("text.safetensors"), "text.safetensors: ");
    refused(with("none.safetensors"),
            "train.init_from is \"none.safetensors\", which is neither a file nor a folder, nor a run in the "
            "folder runs; the runs here are run\n");
    refused(with("runs/rum"), "nor a run in the folder runs; did you mean runs/run?\n");
  }
  EXPECT_EQ(checkpoints("run"), Words{});
  EXPECT_EQ(last_step("run"), 0);
  // The same folder then takes the right file.
  auto result = trainrun({"--nproc", "3", "g.json", "--init_from=good.safetensors"});
  EXPECT_EQ(result.code, kExitOk) << result.output;
  EXPECT_HAS(result.output, "initial weights from good.safetensors");
  // A file is not asked for where a checkpoint is.
  result = trainrun({"--nproc", "2", "g.json", "--init_from=none.safetensors", "--train.steps=3"});
  EXPECT_EQ(result.code, kExitOk) << result.output;
  EXPECT_HAS(result.output, "train.init_from is ignored: the run folder holds a checkpoint");
}

// A loss that is no number ends the run, and the last checkpoint is from before it.
TEST_F(BadInput, RatesThatDestroyTheModel) {
  write_tiny();
  train({"--nproc", "2", "c.json", "--train.steps=20"});
  auto before = files_of("run/ckpt");
  refused({"--nproc", "2", "c.json", "--optim.lr=1e38", "--optim.clip=0"},
          "; the last checkpoint is untouched. Lower optim.lr, or clip more (optim.clip)\n");
  EXPECT_EQ(files_of("run/ckpt"), before);
}

}  // namespace
}  // namespace lockstep::tests
