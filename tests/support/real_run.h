// Runs of the real trainrun in a scratch folder: starting them, and what they left on the disk, as text to
// compare.
#pragma once

#include <algorithm>
#include <cctype>
#include <cmath>

#include "core/base/error.h"
#include "tests/process/trainrun_process.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::tests {

#define EXPECT_HAS(text, part) \
  EXPECT_NE((text).find(part), std::string::npos) << "missing: " << (part) << "\nin:\n" << (text)

int occurrences(const std::string& text, const std::string& part);

// One line of metrics.jsonl: the text of each value.
using MetricsLine = std::map<std::string, std::string>;

std::vector<MetricsLine> metrics_lines(const std::string& path);

// The values of one column as "STEP VALUE", for the lines that have it.
std::vector<std::string> column(const std::vector<MetricsLine>& lines, const std::string& name);

// The test's current folder is a scratch folder; runs are made below it. The kernel cache is shared by all
// tests of the build.
class RealRun : public ::testing::Test {
 protected:
  struct Result {
    int code = -1;
    std::string output;
  };
  using Variables = std::map<std::string, std::string>;

  void SetUp() override;
  void TearDown() override;

  // Writes tokens.bin (uint16 ids below 64, a noisy sequence that can be learned) and c.json, a model that
  // takes some ms per step.
  void write_tiny(int64_t global = 12);

  std::unique_ptr<Process> start(std::vector<std::string> words, Variables variables = {}) {
    words.insert(words.begin(), TRAINRUN);
    variables.emplace("LOCKSTEP_CACHE", KERNEL_CACHE);
    return std::make_unique<Process>(words, scratch_.path("out"), variables);
  }
  // To its end; code -1 when it was not over after `seconds`.
  Result trainrun(std::vector<std::string> words, Variables variables = {}, double seconds = 100) {
    auto process = start(std::move(words), std::move(variables));
    int code = process->wait(seconds);
    return {code, process->output()};
  }
  void train(std::vector<std::string> words, Variables variables = {}) {
    auto result = trainrun(std::move(words), std::move(variables));
    ASSERT_EQ(result.code, kExitOk) << result.output;
  }

  static std::vector<MetricsLine> metrics(const std::string& name) {
    return metrics_lines("runs/" + name + "/metrics.jsonl");
  }
  static std::string final_hash(const std::string& name);
  static int64_t last_step(const std::string& name);
  static Json manifest(const std::string& name, int64_t step);
  static std::vector<std::string> checkpoints(const std::string& name);
  // The steps whose checkpoints are whole, ascending.
  static std::vector<int64_t> steps_saved(const std::string& name);
  // Path and bytes of every file of a run that is not a log or a lock.
  static std::map<std::string, std::string> files_of(const std::string& name);
  // Two runs are the same: every loss, gradient norm and validation loss of every step, and the final state.
  static void expect_same_run(const std::string& a, const std::string& b);
  // Command lines of processes whose environment speaks of this scratch folder, after at most 2 s.
  std::vector<std::string> processes_left();

  ScratchFolder scratch_;
  std::filesystem::path previous_;
};

}  // namespace lockstep::tests
