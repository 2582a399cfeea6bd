// The supervisor with workers that train nothing: how a test starts them, and what it asks of their run's
// folder.
#pragma once

#include <chrono>

#include "core/base/error.h"
#include "launcher/supervise/worker/contract.h"
#include "tests/process/trainrun_process.h"

namespace lockstep {

struct Case {
  int nproc = 3;
  int max_restarts = 0, min_nproc = 0;
  double grace = 10;
  std::map<std::string, std::string> variables = {};
};

class Supervise : public ::testing::Test {
 protected:
  std::string folder(const char* name = "run") const { return scratch_ / name; }
  Process start(const std::vector<std::string>& worker, const Case& c = {}, const char* name = "run") {
    std::vector<std::string> argv = {FAKE_TRAINRUN,    folder(name), str(c.nproc), str(c.max_restarts),
                                     str(c.min_nproc), str(c.grace), FAKE_WORKER};
    argv.insert(argv.end(), worker.begin(), worker.end());
    return Process(argv, str(folder(name), ".", ++started_, ".out"), c.variables);
  }
  RunRecord run(const char* name = "run") const { return RunRecord(folder(name)); }
  std::filesystem::path scratch_path() const { return scratch_; }

 private:
  std::filesystem::path scratch_ = std::filesystem::path(::testing::TempDir()) /
                                   (std::string("supervise-") + std::to_string(getpid()) + "-" +
                                    ::testing::UnitTest::GetInstance()->current_test_info()->name());
  int started_ = 0;

 protected:
  void SetUp() override { std::filesystem::create_directories(scratch_); }
  void TearDown() override {
    if (!HasFailure()) std::filesystem::remove_all(scratch_);
  }
};

inline double seconds_since(std::chrono::steady_clock::time_point then) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - then).count();
}

#define EXPECT_HAS(text, part) \
  EXPECT_NE((text).find(part), std::string::npos) << "missing: " << (part) << "\nin:\n" << (text)
#define EXPECT_LACKS(text, part) \
  EXPECT_EQ((text).find(part), std::string::npos) << "unwanted: " << (part) << "\nin:\n" << (text)

}  // namespace lockstep
