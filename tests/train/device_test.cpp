// A device whose memory the host does not address (the example backend): the same losses and the same state as the CPU's own, on one rank
// and on several, through captured programs, checkpoints and evaluation.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "tests/process/trainrun_process.h"

namespace lockstep {
namespace {

class FarDevice : public ::testing::Test {
 protected:
  // Runs trainrun and gives the metrics rows, without what depends on time.
  std::vector<Json> train(const std::string& name, int nproc, const std::string& device, std::vector<std::string> more = {}) {
    std::vector<std::string> argv{"/usr/bin/env", "-C", root_, TRAINRUN, "--nproc", str(nproc), CONFIG, "--name=" + name,
                                  "--train.device=" + device, "--train.steps=12", "--log.every=1", "--log.hash_every=4",
                                  "--train.eval_every=6", "--checkpoint.every=6", "--optim.schedule.warmup=2"};
    argv.insert(argv.end(), more.begin(), more.end());
    Process process(argv, root_ / (name + ".out"));
    EXPECT_EQ(process.wait(120), 0) << process.output();
    std::vector<Json> rows;
    std::ifstream file(folder(name) + "/metrics.jsonl");
    for (std::string line; std::getline(file, line);) {
      Json row = Json::parse(line);
      row.erase("step_ms");
      row.erase("tokens_per_s");
      rows.push_back(row);
    }
    return rows;
  }
  std::string folder(const std::string& name) const { return root_ / "runs" / name; }
  std::string root() const { return root_; }
  void SetUp() override { std::filesystem::create_directories(root_); }
  void TearDown() override {
    if (!HasFailure()) std::filesystem::remove_all(root_);
  }

 private:
  std::filesystem::path root_ = std::filesystem::path(::testing::TempDir()) / str("far-", getpid(), "-",
                                                                               ::testing::UnitTest::GetInstance()->current_test_info()->name());
};
const std::string kFar = std::string("plugin:") + FAR_DEVICE;

TEST_F(FarDevice, SameBitsAsTheCpu) {
  auto cpu = train("cpu", 1, "cpu");
  ASSERT_EQ(cpu.size(), 12u);
  EXPECT_EQ(train("far1", 1, kFar), cpu);
  EXPECT_EQ(train("far2", 2, kFar), cpu);
}

TEST_F(FarDevice, ResumesWhatTheCpuSaved) {
  auto whole = train("cpu", 1, "cpu");
  train("mixed", 2, "cpu", {"--train.steps=6", "--optim.schedule.kind=constant"});
  auto straight = train("straight", 1, "cpu", {"--optim.schedule.kind=constant"});
  auto mixed = train("mixed", 1, kFar, {"--optim.schedule.kind=constant"});
  ASSERT_EQ(mixed.size(), 12u);
  EXPECT_EQ(mixed.back(), straight.back());
}

TEST_F(FarDevice, RefusalsNameTheLibrary) {
  auto refused = [&](const std::string& device) {
    Process process({"/usr/bin/env", "-C", root(), TRAINRUN, CONFIG, "--name=refused", "--train.device=" + device}, root() + "/refused.out");
    EXPECT_EQ(process.wait(60), kExitUser);
    return process.output();
  };
  EXPECT_NE(refused("plugin:/nowhere/libfoo.so").find("train.device plugin:/nowhere/libfoo.so: "), std::string::npos);
  EXPECT_NE(refused(str("plugin:", NO_BACKEND)).find("has no entry \"lockstep_backend\""), std::string::npos);
  EXPECT_NE(refused(str("plugin:", OLD_BACKEND)).find("was built against \"lockstep backend 0, gcc 1.0\""), std::string::npos);
}

}  // namespace
}  // namespace lockstep
