// Runs of the real trainrun in a scratch folder: starting them, and what they left on the disk, as text to
// compare.
#pragma once

#include <algorithm>
#include <cctype>
#include <cmath>
#include <regex>

#include "core/base/error.h"
#include "tests/process/trainrun_process.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::tests {

#define EXPECT_HAS(text, part) \
  EXPECT_NE((text).find(part), std::string::npos) << "missing: " << (part) << "\nin:\n" << (text)

inline int occurrences(const std::string& text, const std::string& part) {
  int n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++n;
  return n;
}

// One line of metrics.jsonl: the text of each value.
using MetricsLine = std::map<std::string, std::string>;

inline std::vector<MetricsLine> metrics_lines(const std::string& path) {
  static const std::regex pair(R"re("([a-z_]+)": ("[^"]*"|[^,}]+))re");
  std::vector<MetricsLine> out;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    out.emplace_back();
    for (std::sregex_iterator it(line.begin(), line.end(), pair), end; it != end; ++it)
      out.back()[(*it)[1]] = (*it)[2];
  }
  return out;
}

// The values of one column as "STEP VALUE", for the lines that have it.
inline std::vector<std::string> column(const std::vector<MetricsLine>& lines, const std::string& name) {
  std::vector<std::string> out;
  for (const auto& line : lines)
    if (auto found = line.find(name); found != line.end())
      out.push_back(line.at("step") + " " + found->second);
  return out;
}

// The test's current folder is a scratch folder; runs are made below it. The kernel cache is shared by all
// tests of the build.
class RealRun : public ::testing::Test {
 protected:
  struct Result {
    int code = -1;
    std::string output;
  };
  using Variables = std::map<std::string, std::string>;

  void SetUp() override {
    previous_ = std::filesystem::current_path();
    std::filesystem::current_path(scratch_.path(""));
  }
  void TearDown() override {
    EXPECT_EQ(processes_left(), std::vector<std::string>{});
    std::filesystem::current_path(previous_);
  }

  // Writes tokens.bin (uint16 ids below 64, a noisy sequence that can be learned) and c.json, a model that
  // takes some ms per step.
  void write_tiny(int64_t global = 12) {
    std::vector<uint16_t> tokens;
    uint64_t random = 1;
    for (uint32_t x = 3; tokens.size() < 6000; tokens.push_back(static_cast<uint16_t>(x))) {
      random = random * 6364136223846793005ULL + 1442695040888963407ULL;
      x = (x * 5 + 7 + (random >> 61 ? 0 : static_cast<uint32_t>(random >> 40) % 64)) % 64;
    }
    scratch_.write("tokens.bin", tokens);
    scratch_.write(
        "c.json",
        str(R"({"name": "run", "model": {"kind": "gpt", "vocab": 64, "context": 16, "width": 32, "depth": 2, "heads": 2},
      "data": {"kind": "tokens", "paths": ["tokens.bin"], "validation": 0.1}, "batch": {"global": )",
            global, R"(, "micro": 2},
      "train": {"steps": 100}, "optim": {"lr": 1e-2, "schedule": {"warmup": 5}}, "checkpoint": {"every": 20}, "log": {"every": 1}})"));
  }

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
  static std::string final_hash(const std::string& name) {
    auto lines = metrics(name);
    return lines.empty() || !lines.back().count("state_hash") ? "no state hash in runs/" + name
                                                              : lines.back()["state_hash"];
  }
  static int64_t last_step(const std::string& name) {
    auto lines = metrics(name);
    return lines.empty() || !lines.back().count("step") ? 0 : std::stoll(lines.back()["step"]);
  }
  static Json manifest(const std::string& name, int64_t step) {
    return Json::parse(file_text(str("runs/", name, "/ckpt/step-", step, "/manifest.json")), nullptr, false);
  }
  static std::vector<std::string> checkpoints(const std::string& name) {
    std::vector<std::string> out;
    if (!std::filesystem::exists("runs/" + name + "/ckpt")) return out;
    for (const auto& entry : std::filesystem::directory_iterator("runs/" + name + "/ckpt"))
      if (entry.is_directory()) out.push_back(entry.path().filename());
    std::sort(out.begin(), out.end());
    return out;
  }
  // The steps whose checkpoints are whole, ascending.
  static std::vector<int64_t> steps_saved(const std::string& name) {
    std::vector<int64_t> out;
    for (const auto& folder : checkpoints(name))
      if (folder.find('.') == std::string::npos) out.push_back(std::stoll(folder.substr(5)));
    std::sort(out.begin(), out.end());
    return out;
  }
  // Path and bytes of every file of a run that is not a log or a lock.
  static std::map<std::string, std::string> files_of(const std::string& name) {
    std::map<std::string, std::string> out;
    for (const auto& entry : std::filesystem::recursive_directory_iterator("runs/" + name)) {
      std::string path = entry.path();
      if (entry.is_regular_file() && path.find("/logs/") == std::string::npos &&
          path.find("lock") == std::string::npos)
        out[path] = file_text(path);
    }
    return out;
  }
  // Two runs are the same: every loss, gradient norm and validation loss of every step, and the final state.
  static void expect_same_run(const std::string& a, const std::string& b) {
    for (const char* name : {"loss", "grad_norm", "lr", "val_loss"})
      EXPECT_EQ(column(metrics(a), name), column(metrics(b), name)) << name << " of " << a << " and " << b;
    EXPECT_EQ(final_hash(a), final_hash(b)) << a << " and " << b;
  }
  // Command lines of processes whose environment speaks of this scratch folder, after at most 2 s.
  std::vector<std::string> processes_left() {
    std::vector<std::string> out;
    until(2, [&] {
      out.clear();
      for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
        std::string pid = entry.path().filename();
        if (pid.find_first_not_of("0123456789") != std::string::npos || !alive(std::stoi(pid))) continue;
        if (file_text("/proc/" + pid + "/environ").find("LOCKSTEP_RUN_DIR=" + scratch_.path("")) !=
            std::string::npos)
          out.push_back(pid + " " + file_text("/proc/" + pid + "/cmdline"));
      }
      return out.empty();
    });
    return out;
  }

  ScratchFolder scratch_;
  std::filesystem::path previous_;
};

}  // namespace lockstep::tests
