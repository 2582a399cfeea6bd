// trainrun ckpt diff, cat, prune, reshard, average on real runs.
#include <array>
#include <regex>

#include "core/base/json.h"
#include "tests/support/real_run.h"

namespace lockstep::tests {
namespace {

class CkptTools : public RealRun {
 protected:
  std::string said(std::vector<std::string> words, int code = kExitOk) {
    words.insert(words.begin(), "ckpt");
    auto result = trainrun(words);
    EXPECT_EQ(result.code, code) << join(words, " ") << "\n" << result.output;
    return result.output;
  }
  void refused(std::vector<std::string> words, const std::string& part) {
    EXPECT_HAS(said(std::move(words), kExitUser), part);
  }
};

// A command that is ended by a signal takes away what it made, and nothing else.
TEST_F(CkptTools, WhatIsEndedLeavesNothingHalfMade) {
  write_tiny();
  train(
      {"c.json", "--train.steps=1", "--model.width=512", "--model.depth=4", "--model.heads=8", "--name=big"});
  scratch_.write("keeps/mine", std::string("mine"));
  const std::vector<std::vector<std::string>> commands = {
      {"export-hf", "runs/big", "made"},
      {"export-hf", "runs/big", "made", "--max-shard=20MB"},
      {"ckpt", "reshard", "runs/big", "made", "--ranks", "3"},
      {"ckpt", "reshard", "runs/big", "keeps", "--ranks", "3"},
      {"ckpt", "average", "runs/big", "runs/big/ckpt/step-1", "made"},
  };
  for (const auto& words : commands)
    for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
      const bool kept = words.size() > 3 && words[3] == "keeps";
      auto process = start(words);
      ASSERT_TRUE(until(60, [&] {
        return std::filesystem::exists(kept ? "keeps/ckpt" : "made") || process->wait(0) >= 0;
      })) << process->output();
      kill(process->pid(), signal);
      EXPECT_EQ(process->wait(20), 128 + signal) << join(words, " ") << "\n" << process->output();
      EXPECT_FALSE(std::filesystem::exists("made")) << join(words, " ") << " and signal " << signal;
      EXPECT_FALSE(std::filesystem::exists("keeps/ckpt")) << join(words, " ");
      EXPECT_EQ(file_text("keeps/mine"), "mine");
    }
  EXPECT_EQ(trainrun(commands[0]).code, kExitOk);
}

TEST_F(CkptTools, ReshardedFilesAreThoseOfTheRanksThemselves) {
  write_tiny();
  train({"--nproc", "2", "c.json", "--train.steps=40", "--name=two"});
  train({"--nproc", "3", "c.json", "--train.steps=40", "--name=three"});
  auto told = said({"reshard", "runs/two", "runs/made", "--ranks", "3"});
  EXPECT_HAS(told, "wrote runs/made/ckpt/step-40: 3 files, ");
  EXPECT_HAS(told, "as [dp_replicate=3] from [dp_replicate=2]\ntensors lie as its config's model has them");
  for (const char* file : {"rank-0.safetensors", "rank-1.safetensors", "rank-2.safetensors"})
    EXPECT_EQ(file_text(str("runs/made/ckpt/step-40/", file)),
              file_text(str("runs/three/ckpt/step-40/", file)))
        << file;
  EXPECT_EQ(manifest("made", 40)["tensors"], manifest("three", 40)["tensors"]);
  EXPECT_HAS(said({"verify", "runs/made"}), "runs/made/ckpt/step-40: whole");
  const auto same = said({"diff", "runs/two", "runs/made"});
  EXPECT_HAS(same,
             str("equal: 84 tensors, state hash ", manifest("two", 40)["state_hash"].get<std::string>()));
  EXPECT_HAS(same, "mesh                [dp_replicate=2]  [dp_replicate=3]\n");
  // It goes on where the other one stopped, with the same bits.
  for (const char* name : {"two", "made"})
    train({"--nproc", "1", "c.json", "--train.steps=60", str("--name=", name)});
  EXPECT_EQ(final_hash("two"), final_hash("made"));
  told = said({"reshard", "runs/two", "runs/rows", "--mesh", R"({"dp_shard": 2, "tp": 2})", "--by-rows"});
  EXPECT_HAS(told, "tensors lie by rows of their first dim: --by-rows\n");
  said({"verify", "runs/rows"});
  told = said({"reshard", "runs/two", "runs/tp", "--mesh", R"({"dp_shard": 2, "tp": 2})"});
  EXPECT_HAS(told, "as [dp_shard=2, tp=2] from [dp_replicate=1]\n");
  EXPECT_HAS(said({"diff", "runs/tp", "runs/two/ckpt/step-60"}), "equal: 84 tensors");
  refused({"reshard", "runs/two", "runs/made", "--ranks", "2"},
          "runs/made/ckpt/step-60 is there already, and is left as it is; name another OUT");
  refused({"reshard", "runs/two", "runs/x"}, "reshard: give --ranks N or --mesh JSON");
  refused({"reshard", "runs/two", "runs/x", "--ranks", "99999999999"},
          "reshard: --ranks is 99999999999; at most 16384");
  refused({"reshard", "runs/two", "runs/x", "--mesh", R"({"dp_shard": 99999999999})"},
          "--mesh: dp_shard is 99999999999; at most 16384");
  refused({"reshard", "runs/two", "runs/x", "--mesh", R"({"dp_shard": 1024, "tp": 1024})"},
          "reshard: --mesh names 1048576 ranks; at most 16384");
  refused({"reshard", "runs/two", "runs/x", "--mesh", "[2]"},
          "--mesh is [2]; write an object of sizes, as in '{\"dp_shard\": 2, \"tp\": 2}'");
  refused({"reshard", "runs/two", "runs/x", "--mesh", R"({"dp_shard": 0})"},
          "--mesh: dp_shard is 0; a mesh dim's size is 1 or more");
  refused({"reshard", "runs/two", "runs/x", "--mesh", R"({"dp_shard": 2, "foo": 2})"},
          "--mesh: mesh.dim_names: unknown dim \"foo\"; known: dp_replicate, dp_shard, tp");
  refused({"reshard", "runs/two", "runs/x/step-4", "--ranks", "2"},
          "OUT is runs/x/step-4; name a run, as in runs/NAME: its ckpt/step-N is written");
  refused({"reshard", "runs/two", "c.json", "--ranks", "2"},
          "OUT is c.json, which is a file; name a run, as in runs/NAME");
}

TEST_F(CkptTools, DiffNamesStepTensorAndIndex) {
  write_tiny();
  train({"--nproc", "2", "c.json", "--train.steps=40", "--name=a"});
  train({"--nproc", "1", "c.json", "--train.steps=20", "--name=b"});
  train({"--nproc", "1", "c.json", "--train.steps=40", "--name=b", "--optim.lr=2e-2"});
  const auto told = said({"diff", "runs/a", "runs/b"}, 1);
  EXPECT_HAS(told, "A: runs/a/ckpt/step-40\nB: runs/b/ckpt/step-40\n");
  EXPECT_HAS(told, "step 40 is the first that differs; the same state hash at step 20\n");
  EXPECT_TRUE(std::regex_search(
      told, std::regex(
                "different: \\d+ of 84 tensors\nfirst: step 40, [a-z0-9_.]+ \\[[0-9,]+\\]: \\S+ and \\S+\n")))
      << told;
  EXPECT_HAS(told, "more; --all prints them\n");
  EXPECT_HAS(told, "config.optim.lr");
  EXPECT_HAS(said({"diff", "runs/a/ckpt/step-20", "runs/b/ckpt/step-20"}), "equal: 84 tensors");
  EXPECT_HAS(said({"diff", "runs/a", "runs/b", "--tolerance", "1e9"}), "equal: 84 tensors, within 1e+09");
  refused({"diff", "runs/a", "runs/b", "--tolerance", "-1"},
          "--tolerance is \"-1\"; it must be a number from 0 to 1000000000000");
  refused({"diff", "runs/a", "runs/c"}, "no run runs/c: there is no such folder; the runs here are a, b");
}

TEST_F(CkptTools, CatPrintsWhatNumpyWouldIndex) {
  write_tiny();
  train({"--nproc", "2", "c.json", "--train.steps=20"});
  const std::string tensor = "optim.blocks.1.mlp.up.weight.exp_avg_sq";  // [128,32], in two chunks
  const auto all = split(trim(said({"cat", "runs/run", tensor})), '\n');
  ASSERT_EQ(all.size(), 128u);
  auto cells = [](const std::string& line) { return split(line, ' '); };
  ASSERT_EQ(cells(all[0]).size(), 32u);
  const auto part = split(trim(said({"cat", "runs/run", tensor, "--index", "62:66, -2:"})), '\n');
  ASSERT_EQ(part.size(), 4u);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(part[i], cells(all[62 + i])[30] + " " + cells(all[62 + i])[31]);
  EXPECT_EQ(trim(said({"cat", "runs/run/ckpt/step-20", tensor, "--index=-1,3"})), cells(all[127])[3]);
  EXPECT_EQ(said({"cat", "runs/run", tensor, "--index=5:5"}), "");
  // One index takes its dim away, a range of one keeps it.
  EXPECT_EQ(split(trim(said({"cat", "runs/run", tensor, "--index=62"})), '\n'), cells(all[62]));
  EXPECT_EQ(trim(said({"cat", "runs/run", tensor, "--index=62:63"})), all[62]);
  for (const auto& [index, shape, header] :
       std::vector<std::array<const char*, 3>>{{"0,0", "[]", "'shape': (), "},
                                               {"62", "[32]", "'shape': (32,), "},
                                               {":,-1:", "[128,1]", "(128,1,), "}}) {
    EXPECT_HAS(said({"cat", "runs/run", tensor, str("--index=", index), "--npy=one.npy"}),
               str("wrote one.npy: f32", shape, " of "));
    EXPECT_HAS(file_text("one.npy"), header);
  }
  EXPECT_EQ(said({"cat", "runs/run", tensor, "--index=62:66", "--npy=part.npy"}),
            "wrote part.npy: f32[4,32] of " + tensor + ", step 20\n");
  const std::string npy = file_text("part.npy");
  ASSERT_EQ(npy.size(), 128u + 4 * 32 * 4);
  EXPECT_EQ(npy.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
  EXPECT_HAS(npy, "{'descr': '<f4', 'fortran_order': False, 'shape': (4,32,), }");
  float value = 0;
  std::memcpy(&value, npy.data() + npy.size() - 4, 4);
  EXPECT_EQ(number_text(value), cells(all[65])[31]);
  // A link that has the name makes place; what it points to stays.
  scratch_.write("theirs", std::string("kept"));
  std::filesystem::create_symlink("theirs", "linked.npy");
  said({"cat", "runs/run", tensor, "--index=62:66", "--npy=linked.npy"});
  EXPECT_EQ(file_text("linked.npy"), npy);
  EXPECT_EQ(file_text("theirs"), "kept");
  refused(
      {"cat", "runs/run", "blocks.1.mlp.up.weigt"},
      "runs/run/ckpt/step-20 has no tensor \"blocks.1.mlp.up.weigt\"; did you mean blocks.1.mlp.up.weight?");
  refused({"cat", "runs/run", "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz"},
          "; trainrun ckpt show runs/run/ckpt/step-20 lists its 84");
  refused({"cat", "runs/run", tensor, "--index=0,0,0"},
          str("--index \"0,0,0\" has 3 parts, and ", tensor, " is f32[128,32], of 2 dims"));
  refused({"cat", "runs/run", tensor, "--index=128"},
          "--index \"128\": 128 is outside of dim 0, which has 128");
  refused({"cat", "runs/run", tensor, "--index=a:3"},
          "--index \"a:3\": \"a\" is no whole number; write it as in \"0:3, :, -1\"");
  refused({"cat", "runs/run", tensor, "--npy=part.txt"}, "--npy part.txt: name a file that ends in .npy");
  refused({"cat", "runs/run", tensor, "--npy=no/part.npy"},
          "cannot write no/part.npy: No such file or directory");
}

TEST_F(CkptTools, PruneTellsAndRemoves) {
  write_tiny();
  train({"--nproc", "1", "c.json", "--train.steps=80", "--checkpoint.keep=100"});
  auto told = said({"prune", "runs/run", "--keep", "1", "--keep-every", "40", "--dry-run"});
  EXPECT_HAS(told, "stays: the newest whole one\n");
  EXPECT_HAS(told, "2 of 4 would be removed, ");
  EXPECT_EQ(checkpoints("run").size(), 4u);
  told = said({"prune", "runs/run", "--keep", "1", "--keep-every", "40"});
  EXPECT_HAS(told, "stays: every 40 steps\n");
  EXPECT_HAS(told, "2 of 4 removed, ");
  EXPECT_EQ(checkpoints("run"), (std::vector<std::string>{"step-40", "step-80"}));
  train({"--nproc", "2", "c.json", "--train.steps=90"});
  told = said({"ls", "runs/run/ckpt/step-40/"});  // of a step folder its own row
  EXPECT_EQ(occurrences(told, "\n"), 2) << told;
  EXPECT_HAS(told, "runs/run/ckpt/step-40  40  ");
  std::filesystem::create_directory("pictures");
  refused({"prune", "pictures", "--keep", "1"}, "pictures holds no checkpoint; name a run");
  EXPECT_TRUE(std::filesystem::is_empty("pictures"));
  // What a variable that is not set leaves.
  const char* empty = " is empty, as where a variable is not set; give a value: trainrun ckpt ";
  refused({"reshard", "runs/run", "", "--ranks", "2"}, str("OUT", empty, "reshard --help"));
  refused({"average", "runs/run", "runs/run/ckpt/step-40", ""}, str("SRC... OUT", empty, "average --help"));
  refused({"ls", ""}, str("PATH", empty, "ls --help"));
  for (const char* made : {"/ckpt", "ckpt"}) EXPECT_FALSE(std::filesystem::exists(made)) << made;
  refused({"prune", "runs/run/ckpt/step-40", "--keep", "1"},
          "prune: runs/run/ckpt/step-40 is one checkpoint; name its run, and say how many stay");
  for (const char* none : {"0", "-1", "1.5", "9223372036854775808"}) {
    const auto words = [&](const char* flag) {
      return str(flag, " is \"", none, "\"; it must be a whole number from 1 to 9223372036854775807; ");
    };
    refused({"prune", "runs/run", str("--keep=", none)}, words("--keep"));
    refused({"prune", "runs/run", "--keep=1", str("--keep-every=", none)}, words("--keep-every"));
    refused({"reshard", "runs/run", "runs/out", str("--ranks=", none)}, words("--ranks"));
  }
  refused({"prune", "runs/run"}, "--keep is required");
}

TEST_F(CkptTools, AverageIsWhatRunsStartFrom) {
  write_tiny();
  train({"--nproc", "2", "c.json", "--train.steps=60", "--name=a"});
  EXPECT_EQ(said({"ls", "a"}), said({"ls", "runs/a"}));  // a run by its name
  EXPECT_EQ(said({"show", "a"}), said({"show", "runs/a"}));
  const auto told = said({"average", "runs/a/ckpt/step-40", "runs/a", "runs/mean"});
  EXPECT_HAS(told, "wrote runs/mean/ckpt/step-60: the mean of 28 tensors over 2 checkpoints, ");
  EXPECT_HAS(told, "left out, of the optimizer: 56 tensors, as optim.");
  auto value = [&](const std::string& path) {
    return std::stod(said({"cat", path, "blocks.0.mlp.up.weight", "--index=3,4"}));
  };
  EXPECT_EQ(static_cast<float>(value("runs/mean")),
            static_cast<float>((static_cast<double>(static_cast<float>(value("runs/a/ckpt/step-40"))) +
                                static_cast<double>(static_cast<float>(value("runs/a/ckpt/step-60")))) /
                               2));
  train({"--nproc", "2", "c.json", "--train.steps=5", "--name=next", "--train.init_from=runs/mean"});
  refused({"average", "runs/a", "runs/mean"},
          "average takes two checkpoints or more, and OUT behind them; 2 paths");
}

// What takes weights takes their mean, and a run that would resume from it is told the way out.
TEST_F(CkptTools, AnAverageGeneratesAndIsExported) {
  std::string text;
  for (int i = 0; i < 200; ++i) text += "a rose is a rose is a rose; ";
  scratch_.write("text/roses.txt", text);
  scratch_.write(
      "t.json",
      R"({"name": "run", "model": {"kind": "llama", "vocab": 256, "context": 16, "width": 32, "depth": 1, "heads": 2},
    "data": {"kind": "text", "paths": ["text"]}, "batch": {"global": 16, "micro": 4}, "train": {"steps": 80},
    "checkpoint": {"every": 70}, "optim": {"lr": 2e-2, "schedule": {"kind": "cosine", "warmup": 5}}})");
  train({"--nproc", "2", "t.json"});
  said({"average", "runs/run/ckpt/step-70", "runs/run/ckpt/step-80", "runs/mean"});
  const Result generated =
      trainrun({"generate", "runs/mean", "--prompt", "a rose is", "--tokens=7", "--temperature=0"});
  EXPECT_EQ(generated.output, "a rose is a rose\n");
  const Result exported = trainrun({"export-hf", "runs/mean", "exported"});
  EXPECT_EQ(exported.code, kExitOk) << exported.output;
  EXPECT_HAS(exported.output, "12 tensors in 1 file");
  const Result resumed = trainrun({"--nproc", "2", "t.json", "--name=mean", "--train.steps=90"});
  EXPECT_EQ(resumed.code, kExitUser) << resumed.output;
  EXPECT_HAS(resumed.output, "missing: optim.");
  EXPECT_HAS(resumed.output, "train.init_from=STEP-FOLDER, which takes the weights alone");
}

// A run goes on from a checkpoint of a model with another head and another optimizer, where that is asked
// for.
TEST_F(CkptTools, APartIsLoadedOnRequestAndTheRestIsTold) {
  write_tiny();
  train({"--nproc", "2", "c.json", "--train.steps=20"});
  const std::vector<std::string> other{
      "--nproc", "2", "c.json", "--train.steps=24", "--model.depth=3", "--model.vocab=72", "--batch.micro=3"};
  const Result refused = trainrun(other);
  EXPECT_EQ(refused.code, kExitUser) << refused.output;
  EXPECT_HAS(refused.output, "; --load.partial takes what both have alike");
  auto asked = other;
  asked.push_back("--load.partial");
  const Result resumed = trainrun(asked);
  EXPECT_EQ(resumed.code, kExitOk) << resumed.output;
  EXPECT_HAS(resumed.output, "runs/run/ckpt/step-20 is loaded in part (load.partial): ");
  EXPECT_HAS(resumed.output, "  keeps its initial values: blocks.2.");
  EXPECT_HAS(resumed.output,
             "  keeps its initial values, being of another type: token.weight f32[64,32] in the "
             "checkpoint, f32[72,32] in the model");
  EXPECT_HAS(resumed.output, "/runs/run/ckpt/step-20 (step 20, state ");
  EXPECT_HAS(resumed.output, "model.depth");  // the table of what changed
  EXPECT_HAS(resumed.output, "batch.micro");
  EXPECT_HAS(said({"show", "runs/run"}), "runs/run/ckpt/step-24\n");
  // The other way there is more in the checkpoint than in the model.
  const Result back =
      trainrun({"--nproc", "1", "c.json", "--train.steps=26", "--model.vocab=72", "--load.partial"});
  EXPECT_EQ(back.code, kExitOk) << back.output;
  EXPECT_HAS(back.output, "  nobody takes: blocks.2.");
}

}  // namespace
}  // namespace lockstep::tests
