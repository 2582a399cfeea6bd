// Faults of checkpoints: damaged, edited, of another run, read while they go.
#include <sys/resource.h>

#include "tests/faults/checkpoint_run.h"

namespace lockstep::tests {
namespace {

class Checkpoints : public CheckpointRun {};

TEST_F(Checkpoints, Row23FlippedBit) {
  train_whole();
  falls_back(
      [] {
        flip(step(60) + "/rank-0.safetensors",
             static_cast<int64_t>(fs::file_size(step(60) + "/rank-0.safetensors")) / 2);
      },
      "are damaged: checksum ", 40);
  falls_back([] { flip(step(60) + "/manifest.json", 300), flip(step(40) + "/rank-1.safetensors", 40); },
             "step-40 is damaged: ", 20);
  row({.fault = "a flipped bit in a shard; in the manifest of the newest and the header of the next",
       .seen = "step-60 is damaged: rank 0: .../rank-0.safetensors: tensor ..., bytes at offset A..B are "
               "damaged: checksum ..., written ...",
       .code = "0; 2 if none is whole",
       .detected = "at load",
       .recovered = "falls back to step 40 / 20",
       .lost = "20 / 40",
       .same_bits = "yes"});
}

TEST_F(Checkpoints, Row24ShardsCutMissingSwapped) {
  train_whole();
  const std::string shard = "/rank-1.safetensors";
  falls_back([&] { fs::resize_file(step(60) + shard, 100); }, "rank-1.safetensors is truncated: 100 of ", 40);
  falls_back(
      [&] {
        fs::remove(step(60) + shard);
        ASSERT_EQ(::mkfifo((step(60) + shard).c_str(), 0600), 0);
      },
      "it is a FIFO, not a plain file", 40);
  falls_back(
      [&] {
        fs::remove_all(step(60));
        fs::copy(step(40), step(60), fs::copy_options::recursive);
      },
      "step-60/manifest.json is of step 40, but the folder is named step-60", 40);
  row({.fault = "a shard cut; a FIFO in its place; the folder of an older step under the newest name",
       .seen = "step-60 is damaged: .../step-60/manifest.json is of step 40, but the folder is named step-60",
       .code = "0",
       .detected = "at load",
       .recovered = "falls back to step 40",
       .lost = "20",
       .same_bits = "yes"});
}

TEST_F(Checkpoints, Row25EditedManifest) {
  train_whole();
  auto edit = [](const std::string& from, const std::string& to) {
    std::string text = file_text(step(60) + "/manifest.json");
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    std::ofstream(step(60) + "/manifest.json") << text.replace(at, from.size(), to);
  };
  falls_back([&] { edit("\"rank-0.safetensors\": {", "\"../../../../etc/passwd\": {"); },
             "leaves the checkpoint folder", 40);
  falls_back([&] { edit("\"step\": 60", "\"step\": 9223372036854775808"); }, "step-60 is damaged: ", 40);
  falls_back([&] { fs::resize_file(step(60) + "/manifest.json", 0); }, "step-60/manifest.json", 40);
  row({.fault = "a manifest that names ../../../../etc/passwd; a step of 2^63; an empty one (more: "
                "tests/error/manifest_errors_test.cpp)",
       .seen = "step-60 is damaged: ... file name \"../../../../etc/passwd\" leaves the checkpoint folder",
       .code = "0",
       .detected = "at load, before memory is taken",
       .recovered = "falls back to step 40",
       .lost = "20",
       .same_bits = "yes"});
}

TEST_F(Checkpoints, Row26AnotherConfig) {
  train(on(2, {"--train.steps=20"}));
  auto resumed = [&](Words changes) {
    fs::remove_all("runs/other");
    fs::copy("runs/run", "runs/other", fs::copy_options::recursive);
    changes.insert(changes.end(), {"--name=other", "--train.steps=22"});
    return trainrun(on(2, changes));
  };
  Result same = resumed({"--log.every=3", "--checkpoint.every=7", "--mesh.dim_names=[dp_shard]"});
  EXPECT_EQ(same.code, kExitOk) << same.output;
  EXPECT_EQ(same.output.find("not that of the checkpoint"), std::string::npos) << same.output;
  const Result told = resumed({"--train.seed=2", "--data.order=sequential", "--data.validation=0.2",
                               "--optim.lr=0.02", "--batch.global=16"});
  EXPECT_EQ(told.code, kExitOk) << told.output;
  EXPECT_HAS(told.output, "the config is not that of the checkpoint: 5 keys differ");
  EXPECT_HAS(told.output,
             "other samples and dropout masks from step 21 on; the weights stay those of the checkpoint");
  EXPECT_HAS(told.output,
             "other samples from step 21 on: that step starts at sample 320 of the order, not at 240, and "
             "averages over 16");
  EXPECT_HAS(told.output, "another learning rate from step 21 on");
  const Result refused = resumed({"--model.heads=4"});
  EXPECT_EQ(refused.code, kExitUser) << refused.output;
  EXPECT_HAS(refused.output,
             "step-20 was made by another model: its weights fit this one, but mean something else in it");
  EXPECT_HAS(refused.output, "  model.heads  2           4    another model of the same weights");
  EXPECT_HAS(refused.output, "add --resume.allow=model");
  EXPECT_EQ(checkpoints("other"), Words{"step-20"});
  const Result allowed = resumed({"--model.heads=4", "--resume.allow=model"});
  EXPECT_EQ(allowed.code, kExitOk) << allowed.output;
  EXPECT_HAS(allowed.output, "the config is not that of the checkpoint: 1 key differs");
  const Result misfit = resumed({"--model.width=64"});
  EXPECT_EQ(misfit.code, kExitUser) << misfit.output;
  EXPECT_HAS(misfit.output, "of another shape or dtype");
  row({.fault = "resumed with other seed, order, validation, lr, batch; with other heads; with other shapes",
       .seen = "the config is not that of the checkpoint: 5 keys differ (key, checkpoint, now, what it does "
               "to bits)",
       .code = "0; 2; 2",
       .detected = "at load",
       .recovered = "--resume.allow=model where another model is meant; another --name",
       .lost = "0",
       .same_bits = "as each line says"});
}

TEST_F(Checkpoints, Row27AnotherMesh) {
  train_whole();
  train(on(3, {"--train.steps=20"}));
  train(on(2, {"--train.steps=40", "--mesh.dim_names=[dp_shard]"}));
  train(on(1, {"--train.steps=60"}));
  train(on(4, {"--train.steps=80", "--mesh.shape=[2,2]", "--mesh.dim_names=[dp_replicate,dp_shard]"}));
  const Result last = trainrun(on(2, {"--mesh.dim_names=[dp_shard]", "--mesh.zero=1"}));
  EXPECT_EQ(last.code, kExitOk) << last.output;
  EXPECT_EQ(last.output.find("bits may change"), std::string::npos) << last.output;
  expect_same_steps("whole", "run");
  row({.fault = "resumed along 3 ranks, dp_shard 2, 1, HSDP 2 x 2, ZeRO-1 2",
       .seen = "nothing",
       .code = "0",
       .detected = "-",
       .recovered = "same command, any data mesh",
       .lost = "0",
       .same_bits = "yes, every loss of every step"});
}

// Peak memory of the largest process below a process that does nothing else.
int64_t peak_below(const std::function<int()>& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    const int code = work();
    rusage usage{};
    ::getrusage(RUSAGE_CHILDREN, &usage);
    std::ofstream("peak") << (code == 0 ? usage.ru_maxrss : -1);
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  return std::stoll(file_text("peak"));
}

TEST_F(Checkpoints, Row28LoadingWithLittleMemory) {
  const Words small = {"--model.width=64"},
              big = {"--model.width=512", "--model.depth=3", "--batch.global=2"};
  auto done = [&](Words more, const std::string& name) {
    more.insert(more.end(), {"--train.steps=1", "--name=" + name});
    return on(1, more);
  };
  int64_t peak[2] = {};
  for (int i = 0; i < 2; ++i) {
    const std::string name = i ? "big" : "small";
    train(done(i ? big : small, name));
    peak[i] = peak_below(
        [&] { return trainrun(done(i ? big : small, name)).code; });  // loads, and finds nothing to do
  }
  const int64_t state = (static_cast<int64_t>(fs::file_size("runs/big/ckpt/step-1/rank-0.safetensors")) -
                         static_cast<int64_t>(fs::file_size("runs/small/ckpt/step-1/rank-0.safetensors"))) /
                        1024;
  const int64_t more = peak[1] - peak[0];
  ASSERT_GT(state, 80 * 1024);
  EXPECT_GT(peak[0], 0);
  EXPECT_LT(more, state * 5 / 4 + 16 * 1024) << "KiB more for a state of " << state << " KiB more";
  row({.fault = str("a state of ", state / 1024, " MiB loaded, in whole and by its checksums"),
       .seen = "nothing",
       .code = "0",
       .detected = "-",
       .recovered = str("peak memory ", more / 1024, " MiB above that of a small model"),
       .lost = "-",
       .same_bits = "-"});
}

TEST_F(Checkpoints, Row29TwoJobsOfOneFolder) {
  auto first = start(on(2, {"--train.steps=100000"}));
  ASSERT_TRUE(until(60, [&] { return last_step("run") >= 5; })) << first->output();
  const Result second = trainrun(on(1));
  EXPECT_EQ(second.code, kExitUser) << second.output;
  EXPECT_HAS(second.output,
             str("runs/run is in use by another trainrun (process ", first->pid(), ", since 2"));
  EXPECT_HAS(second.output, "); wait for it, stop it, or choose --name=OTHER");
  ::kill(first->pid(), SIGTERM);
  EXPECT_EQ(first->wait(30), kExitStopped) << first->output();
  row({.fault = "a second trainrun on the run of a first",
       .seen = "runs/run is in use by another trainrun (process N, since TIME); wait for it, stop it, or "
               "choose --name=OTHER",
       .code = "2",
       .detected = "5 s (it waits for the lock)",
       .recovered = "the first goes on",
       .lost = "0",
       .same_bits = "yes"});
}

TEST_F(Checkpoints, Row31DataThatChanged) {
  // 374 sequences, 12 a step: an epoch ends within step 32. Resumed within the first and within the second.
  train_whole();
  for (int64_t step : {20, 40, 100}) train(on(static_cast<int>(step / 20), {str("--train.steps=", step)}));
  expect_same_steps("whole", "run");
  // 4 bytes in the middle of 394 kB, far from both ends.
  std::vector<uint16_t> tokens(197000);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<uint16_t>(i * 7 % 64);
  scratch_.write("tokens.bin", tokens);
  const Words words = on(2, {"--name=changed", "--train.steps=20"}),
              on_words = on(2, {"--name=changed", "--train.steps=22"});
  train(words);
  tokens[98500] ^= 1, tokens[98501] ^= 1;
  scratch_.write("tokens.bin", tokens);
  const Result changed = trainrun(on_words);
  EXPECT_EQ(changed.code, kExitOk) << changed.output;
  EXPECT_EQ(
      occurrences(
          changed.output,
          "the data changed since the checkpoint: samples are not the same as before: tokens.bin changed"),
      1)
      << changed.output;
  row({.fault = "resumed within an epoch, on other ranks; 4 bytes in the middle of a data file of 394 kB "
                "rewritten between two starts",
       .seen =
           "the data changed since the checkpoint: samples are not the same as before: tokens.bin changed",
       .code = "0",
       .detected = "before step 1",
       .recovered = "put the file back; or go on with the new data",
       .lost = "0",
       .same_bits = "yes while nothing changed"});
}

TEST_F(Checkpoints, Row32WrongLatest) {
  train_whole();
  train(on(2, {"--train.steps=60"}));
  const std::string latest = "runs/run/ckpt/latest";
  for (const char* what : {"gone", "step-99", "../../etc/passwd", "fifo", "folder"}) {
    const std::string kind = what;
    fs::remove_all(latest);
    fs::remove_all("runs/again");
    fs::copy("runs/run", "runs/again", fs::copy_options::recursive);
    for (const std::string& path : {latest, std::string("runs/again/ckpt/latest")}) {
      if (kind == "fifo")
        ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
      else if (kind == "folder")
        fs::create_directories(path + "/x");
      else if (kind != "gone")
        scratch_.write(path, kind);
    }
    for (const Words& words :
         {Words{"ckpt", "ls", "runs/run"}, Words{"ckpt", "verify", "runs/run"},
          Words{"ckpt", "show", "runs/run"}, Words{"generate", "runs/run", "--tokens=1"}}) {
      const Result read = trainrun(words, {}, 20);
      EXPECT_EQ(read.code, kExitOk) << kind << ", " << join(words, " ") << ":\n" << read.output;
    }
    const Result resumed = trainrun(on(2, {"--name=again"}), {}, 60);
    EXPECT_EQ(resumed.code, kExitOk) << kind << ":\n" << resumed.output;
    EXPECT_HAS(resumed.output, "ckpt/step-60 (step 60, state ");
    EXPECT_EQ(final_hash("again"), final_hash("whole")) << kind;
  }
  row({.fault = "`latest` gone; naming a step that is not there; \"../../etc/passwd\"; a FIFO; a folder",
       .seen = "runs/run/ckpt/latest names no step; the newest whole checkpoint is taken",
       .code = "0, also of ckpt ls, show, verify and generate",
       .detected = "at load",
       .recovered = "the newest whole checkpoint is taken",
       .lost = "0",
       .same_bits = "yes"});
}

// Section 6 of the trial: commands that read beside a run that keeps one checkpoint and saves as often as it
// can.
TEST_F(Checkpoints, Row71ReadersBesideASavingRun) {
  auto run = start(on(1, {"--train.steps=1000000", "--checkpoint.every=1", "--checkpoint.keep=1",
                          "--log.every=1000000", "--model.vocab=256"}));
  ASSERT_TRUE(until(60, [&] { return !steps_saved("run").empty(); })) << run->output();
  int reads = 0;
  for (int i = 0; i < 15; ++i)
    for (const Words& words :
         {Words{"ckpt", "ls", "runs/run"}, Words{"ckpt", "verify", "runs/run"},
          Words{"ckpt", "show", "runs/run"}, Words{"generate", "runs/run", "--tokens=1"}}) {
      if (words[0] == "generate" && i % 5) continue;
      const Result read = trainrun(words, {}, 30);
      EXPECT_EQ(read.code, kExitOk) << join(words, " ") << ":\n" << read.output;
      EXPECT_EQ(read.output.find("damaged"), std::string::npos) << join(words, " ") << ":\n" << read.output;
      ++reads;
    }
  ::kill(run->pid(), SIGTERM);
  EXPECT_EQ(run->wait(30), kExitStopped) << run->output();
  row({.fault = str(reads,
                    " calls of ckpt ls, verify, show and generate beside a run that saves every step and "
                    "keeps one checkpoint"),
       .seen = "nothing; `removed by its run before it was read` for a step that went meanwhile",
       .code = "0",
       .detected = "-",
       .recovered = "the list is read anew",
       .lost = "0",
       .same_bits = "-"});
}

}  // namespace
}  // namespace lockstep::tests
