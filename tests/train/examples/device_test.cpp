// A device whose memory the host does not address (the example backend): the same losses and the same state
// as the CPU's own, on one rank and on several, through captured programs, checkpoints and evaluation.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "tests/process/trainrun_process.h"
#include "tests/support/npy.h"

namespace lockstep {
namespace {

class FarDevice : public ::testing::Test {
 protected:
  // Runs trainrun and gives the metrics rows, without what depends on time.
  std::vector<Json> train(const std::string& name, int nproc, const std::string& device,
                          std::vector<std::string> more = {}, const std::string& config = CONFIG) {
    std::vector<std::string> argv{"/usr/bin/env",
                                  "-C",
                                  root_,
                                  TRAINRUN,
                                  "--nproc",
                                  str(nproc),
                                  config,
                                  "--name=" + name,
                                  "--train.device=" + device,
                                  "--train.steps=12",
                                  "--log.every=1",
                                  "--log.hash_every=4",
                                  "--train.eval_every=6",
                                  "--checkpoint.every=6",
                                  "--optim.schedule.warmup=2"};
    if (config == CONFIG) argv.insert(argv.end(), kSmaller.begin(), kSmaller.end());
    argv.insert(argv.end(), more.begin(), more.end());
    Process process(argv, root_ / (name + ".out"));
    EXPECT_EQ(process.wait(120), 0) << process.output();
    std::vector<Json> rows;
    std::ifstream file(folder(name) + "/metrics.jsonl");
    for (std::string line; std::getline(file, line);) {
      Json row = Json::parse(line);
      for (const char* measured : {"tokens_per_s", "samples_per_s", "slowest_rank"}) row.erase(measured);
      exposed_.clear();
      for (auto member = row.begin(); member != row.end();) {
        const std::string& key = member.key();
        if (key.starts_with("exposed_")) exposed_[key] = member.value();
        member = key.find("_ms") != std::string::npos ? row.erase(member) : std::next(member);
      }
      rows.push_back(row);
    }
    return rows;
  }
  const std::map<std::string, double>& exposed() const { return exposed_; }  // of the last row
  std::string folder(const std::string& name) const { return root_ / "runs" / name; }
  std::string root() const { return root_; }
  void SetUp() override { std::filesystem::create_directories(root_); }
  void TearDown() override {
    if (!HasFailure()) std::filesystem::remove_all(root_);
  }

  // As many micro-batches as the config's, of one sample each.
  inline static const std::vector<std::string> kSmaller{"--batch.global=8", "--batch.micro=1",
                                                        "--train.eval_batches=3"};

 private:
  std::map<std::string, double> exposed_;
  std::filesystem::path root_ =
      std::filesystem::path(::testing::TempDir()) /
      str("far-", getpid(), "-", ::testing::UnitTest::GetInstance()->current_test_info()->name());
};
const std::string kFar = std::string("plugin:") + FAR_DEVICE;

TEST_F(FarDevice, SameBitsAsTheCpu) {
  auto cpu = train("cpu", 1, "cpu");
  ASSERT_EQ(cpu.size(), 12u);
  EXPECT_EQ(train("far1", 1, kFar), cpu);
  EXPECT_EQ(train("far2", 2, kFar), cpu);
  // Waits are measured in a captured program, too: its last launch is step 12's.
  ASSERT_EQ(exposed().size(), 1u);
  EXPECT_GT(exposed().at("exposed_dp_replicate_ms"), 0);
  EXPECT_EQ(train("far_layers", 2, kFar, {"--mesh.dim_names=[dp_shard]", "--mesh.gather=layers"}), cpu);
}

// They come to the device and go back in queues of their own, which a captured program has, too.
TEST_F(FarDevice, MomentsOnTheHostHaveTheBitsOfTheCpu) {
  const std::string offload = "--optim.offload=true", constant = "--optim.schedule.kind=constant";
  const auto cpu = train("cpu", 1, "cpu", {constant});
  ASSERT_EQ(cpu.size(), 12u);
  EXPECT_EQ(train("far1", 1, kFar, {constant, offload}), cpu);
  EXPECT_EQ(train("far3", 3, kFar, {constant, offload, "--mesh.dim_names=[dp_shard]", "--mesh.zero=2"}), cpu);
  // A run goes on with them elsewhere.
  train("mixed", 2, kFar, {constant, offload, "--train.steps=6"});
  EXPECT_EQ(train("mixed", 1, kFar, {constant}).back(), cpu.back());
}

// They wait there between forward and backward; what one micro-batch left the next one writes over. The
// budget is below what recomputing alone can do, so that something is copied whatever the rates.
TEST_F(FarDevice, ActivationsOnTheHostHaveTheBitsOfTheCpu) {
  std::vector<std::string> words{"/usr/bin/env",
                                 "-C",
                                 root(),
                                 TRAINRUN,
                                 "plan",
                                 "--json",
                                 CONFIG,
                                 "--train.device=" + kFar,
                                 "--compile.memory_budget=full"};
  // In micro-batches of one sample what a full recomputation keeps is too large a part to go 1/16 below it.
  const std::vector<std::string> larger{"--batch.global=16", "--batch.micro=4"};
  words.insert(words.end(), kSmaller.begin(), kSmaller.end());
  words.insert(words.end(), larger.begin(), larger.end());
  Process plan(words, root() + "/plan.out");
  ASSERT_EQ(plan.wait(100), 0) << plan.output();
  const std::string said = plan.output();
  const int64_t least = Json::parse(said.substr(said.find("{\n")))["memory"]["arena"];
  const auto cpu = train("cpu", 1, "cpu", larger);
  ASSERT_EQ(cpu.size(), 12u);
  std::vector<std::string> away = larger;
  away.insert(away.end(),
              {"--compile.offload_activations=true", str("--compile.memory_budget=", least * 15 / 16)});
  for (int ranks : {1, 3}) {
    const std::string name = str("far", ranks);
    EXPECT_EQ(train(name, ranks, kFar, away), cpu);
    std::ifstream log(root() + "/" + name + ".out");
    const std::string text{std::istreambuf_iterator<char>(log), {}};
    EXPECT_NE(text.find("activations wait on the host: "), std::string::npos) << text;
  }
}

// Rows of sparse tables are summed and put where they lie, under gates that lie there, too.
TEST_F(FarDevice, SparseTablesHaveTheBitsOfTheCpu) {
  constexpr int64_t kSamples = 96, kDense = 3, kRows[] = {5, 70};
  std::vector<float> dense, targets;
  std::vector<int32_t> categories;
  for (int64_t i = 0; i < kSamples; ++i) {
    for (int64_t k = 0; k < kDense; ++k) dense.push_back(static_cast<float>((i * 37 + k * 11) % 97) / 48 - 1);
    for (int64_t rows : kRows) categories.push_back(static_cast<int32_t>(i * i % rows));
    targets.push_back(categories.back() % 2 ? 1.0f : 0.0f);
  }
  const std::filesystem::path at = root();
  auto write = [&](const char* name, const std::string& bytes) {
    std::ofstream(at / name, std::ios::binary) << bytes;
  };
  write("dense.npy", tests::npy("<f4", "96, 3", dense));
  write("categories.npy", tests::npy("<i4", "96, 2", categories));
  write("targets.npy", tests::npy("<f4", "96, 1", targets));
  write("clicks.json", R"({"name": "clicks", "batch": {"global": 24, "micro": 4},
    "model": {"kind": "dlrm", "dense": 3, "rows": [5, 70], "width": 4, "bottom": [4], "top": [4], "sparse": true},
    "data": {"kind": "arrays", "paths": ["dense.npy", "categories.npy", "targets.npy"], "validation": 0.2},
    "optim": {"kind": "sparse_adam", "lr": 0.01, "clip": 0.5}})");
  const std::string config = (at / "clicks.json").string();
  const auto cpu = train("cpu", 1, "cpu", {}, config);
  ASSERT_EQ(cpu.size(), 12u);
  EXPECT_LT(cpu[11]["loss"], cpu[0]["loss"]);
  EXPECT_EQ(train("far1", 1, kFar, {}, config), cpu);
  EXPECT_EQ(train("far2", 2, kFar, {}, config), cpu);
  EXPECT_EQ(train("far3", 3, kFar, {"--mesh.dim_names=[dp_shard]", "--mesh.zero=1"}, config), cpu);
}

TEST_F(FarDevice, ResumesWhatTheCpuSaved) {
  train("mixed", 2, "cpu", {"--train.steps=6", "--optim.schedule.kind=constant"});
  auto straight = train("straight", 1, "cpu", {"--optim.schedule.kind=constant"});
  auto mixed = train("mixed", 1, kFar, {"--optim.schedule.kind=constant"});
  ASSERT_EQ(mixed.size(), 12u);
  EXPECT_EQ(mixed.back(), straight.back());
}

// A run on a device of `bytes`, which tells of `told` where it is given.
class FullMemory : public FarDevice {
 protected:
  struct Result {
    int code;
    std::string output;
  };
  Result trainrun(std::vector<std::string> words, std::map<std::string, std::string> variables = {}) {
    std::vector<std::string> argv{"/usr/bin/env", "-C", root(), TRAINRUN};
    argv.insert(argv.end(), words.begin(), words.end());
    for (const char* word :
         {CONFIG, "--name=full", "--model.depth=5", "--train.steps=2", "--optim.schedule.warmup=1"})
      argv.push_back(word);
    argv.push_back("--train.device=" + kFar);
    Process process(argv, root() + "/full.out", variables);
    int code = process.wait(100);
    return {code, process.output()};
  }
  // The bytes that `trainrun plan` says a rank takes of its device: exact, since nothing is only bounded on
  // this device.
  int64_t planned(std::vector<std::string> words) {
    words.insert(words.begin(), {"plan", "--long"});
    auto result = trainrun(words);
    EXPECT_EQ(result.code, 0) << result.output;
    auto table = result.output.find("memory of the fullest rank's device\n"),
         row = result.output.find("  together ", table);
    EXPECT_NE(row, std::string::npos) << result.output;
    return table == std::string::npos || row == std::string::npos
               ? 0
               : std::atoll(result.output.c_str() + row + 28);
  }
  static int count(const std::string& text, const std::string& part) {
    int n = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
    return n;
  }
};

// One byte less than planned is refused before anything is taken; with a few KiB for scalars and counts above
// it the run comes to its end.
TEST_F(FullMemory, ThePlanIsWhatARunTakes) {
  for (const char* nproc : {"1", "2"}) {
    const int64_t bytes = planned({"--nproc", nproc});
    ASSERT_GT(bytes, int64_t{40} << 20);
    auto refused = trainrun({"--nproc", nproc}, {{"FAR_DEVICE_MEMORY", str(bytes - 1)}});
    EXPECT_EQ(refused.code, kExitUser) << refused.output;
    EXPECT_EQ(count(refused.output, str("full does not fit on ", nproc, " rank")), 1) << refused.output;
    for (const char* row : {"\n  weights ", "\n  moments ", "\n  activations ", "\n  batches ",
                            "\n  evaluation, within it ", "\n  gradients "})
      EXPECT_EQ(count(refused.output, row), 1) << row << "\n" << refused.output;
    EXPECT_EQ(count(refused.output, str("\n  together                  ", bytes, " bytes (")), 1)
        << refused.output;
    EXPECT_EQ(count(refused.output, str("\n  free on the device        ", bytes - 1, " bytes (")), 1)
        << refused.output;
    EXPECT_EQ(count(refused.output, "; compile.memory_budget "), 1) << refused.output;
    EXPECT_EQ(count(refused.output, " fits, with the same bits ("), 1) << refused.output;
    auto enough = trainrun({"--nproc", nproc}, {{"FAR_DEVICE_MEMORY", str(bytes + 16384)}});
    EXPECT_EQ(enough.code, 0) << enough.output;
    std::filesystem::remove_all(root() + "/runs");
  }
}

// With moments on the host the device never holds them all, not even before the first step.
TEST_F(FullMemory, MomentsOnTheHostTakeNothingOfTheDevice) {
  for (const char* nproc : {"1", "2"}) {
    const std::vector<std::string> words{"--nproc", nproc, "--optim.offload=true"};
    const int64_t there = planned({"--nproc", nproc}), bytes = planned(words);
    EXPECT_LT(bytes, there - (int64_t{3} << 20));
    auto enough = trainrun(words, {{"FAR_DEVICE_MEMORY", str(bytes + 16384)}});
    EXPECT_EQ(enough.code, 0) << enough.output;
    std::filesystem::remove_all(root() + "/runs");
  }
}

// A save copies them from there: the device has room for the copy, and not for the moments beside it.
TEST_F(FullMemory, ASaveBringsNoMomentsToTheDevice) {
  const std::vector<std::string> plain{"--nproc", "1"}, words{"--nproc", "1", "--optim.offload=true"};
  const int64_t bytes = planned(words), moments = planned(plain) - bytes, copied = moments * 3 / 2;
  auto saved = words;
  saved.emplace_back("--checkpoint.every=1");
  auto run = trainrun(saved, {{"FAR_DEVICE_MEMORY", str(bytes + copied * 3 / 2)}});
  EXPECT_EQ(run.code, 0) << run.output;
  EXPECT_EQ(count(run.output, "the run waits for its saves"), 0) << run.output;
  // Told so where there is none.
  std::filesystem::remove_all(root() + "/runs");
  run = trainrun(saved, {{"FAR_DEVICE_MEMORY", str(bytes + 16384)}});
  EXPECT_EQ(count(run.output, "the run waits for its saves"), 1) << run.output;
}

TEST_F(FullMemory, MomentsThatTheHostDoesNotHoldAreRefused) {
  const auto refused = trainrun({"--nproc", "2", "--optim.offload=true"}, {{"LOCKSTEP_MEMORY", "1MiB"}});
  EXPECT_EQ(refused.code, kExitUser) << refused.output;
  EXPECT_EQ(count(refused.output,
                  "full keeps its moments on the host (optim.offload), and they do not fit there: "
                  "2 ranks have "),
            1)
      << refused.output;
}

TEST_F(FullMemory, TheAllocatorRefusesWhatTheDriverPromised) {
  for (const char* nproc : {"1", "2"}) {
    auto result =
        trainrun({"--nproc", nproc}, {{"FAR_DEVICE_MEMORY", "20000000"}, {"FAR_DEVICE_TOLD", "2000000000"}});
    EXPECT_EQ(result.code, kExitUser) << result.output;
    EXPECT_EQ(count(result.output, "UserError: out of memory on the far device: asked for "), 1)
        << result.output;
    EXPECT_EQ(count(result.output, " of 19.07 MiB are free; use a smaller micro-batch or more ranks\n"), 1)
        << result.output;
  }
}

TEST_F(FarDevice, RefusalsNameTheLibrary) {
  auto refused = [&](const std::string& device) {
    Process process(
        {"/usr/bin/env", "-C", root(), TRAINRUN, CONFIG, "--name=refused", "--train.device=" + device},
        root() + "/refused.out");
    EXPECT_EQ(process.wait(60), kExitUser);
    return process.output();
  };
  EXPECT_NE(refused("plugin:/nowhere/libfoo.so").find("train.device plugin:/nowhere/libfoo.so: "),
            std::string::npos);
  EXPECT_NE(refused(str("plugin:", NO_BACKEND)).find("has no entry \"lockstep_backend\""), std::string::npos);
  EXPECT_NE(refused(str("plugin:", OLD_BACKEND)).find("was built against \"lockstep backend 0, gcc 1.0\""),
            std::string::npos);
}

}  // namespace
}  // namespace lockstep
