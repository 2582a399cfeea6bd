// Runs of the real trainrun, compiled once for all tests.
#include "tests/support/real_run.h"

#include <regex>

namespace lockstep::tests {

int occurrences(const std::string& text, const std::string& part) {
  int n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++n;
  return n;
}

std::vector<MetricsLine> metrics_lines(const std::string& path) {
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

std::vector<std::string> column(const std::vector<MetricsLine>& lines, const std::string& name) {
  std::vector<std::string> out;
  for (const auto& line : lines)
    if (auto found = line.find(name); found != line.end())
      out.push_back(line.at("step") + " " + found->second);
  return out;
}

void RealRun::SetUp() {
  previous_ = std::filesystem::current_path();
  std::filesystem::current_path(scratch_.path(""));
}
void RealRun::TearDown() {
  EXPECT_EQ(processes_left(), std::vector<std::string>{});
  std::filesystem::current_path(previous_);
}
void RealRun::write_tiny(int64_t global) {
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
std::string RealRun::final_hash(const std::string& name) {
  auto lines = metrics(name);
  return lines.empty() || !lines.back().count("state_hash") ? "no state hash in runs/" + name
                                                            : lines.back()["state_hash"];
}
int64_t RealRun::last_step(const std::string& name) {
  auto lines = metrics(name);
  return lines.empty() || !lines.back().count("step") ? 0 : std::stoll(lines.back()["step"]);
}
Json RealRun::manifest(const std::string& name, int64_t step) {
  return Json::parse(file_text(str("runs/", name, "/ckpt/step-", step, "/manifest.json")), nullptr, false);
}
std::vector<std::string> RealRun::checkpoints(const std::string& name) {
  std::vector<std::string> out;
  if (!std::filesystem::exists("runs/" + name + "/ckpt")) return out;
  for (const auto& entry : std::filesystem::directory_iterator("runs/" + name + "/ckpt"))
    if (entry.is_directory()) out.push_back(entry.path().filename());
  std::sort(out.begin(), out.end());
  return out;
}
std::vector<int64_t> RealRun::steps_saved(const std::string& name) {
  std::vector<int64_t> out;
  for (const auto& folder : checkpoints(name))
    if (folder.find('.') == std::string::npos) out.push_back(std::stoll(folder.substr(5)));
  std::sort(out.begin(), out.end());
  return out;
}
std::map<std::string, std::string> RealRun::files_of(const std::string& name) {
  std::map<std::string, std::string> out;
  for (const auto& entry : std::filesystem::recursive_directory_iterator("runs/" + name)) {
    std::string path = entry.path();
    if (entry.is_regular_file() && path.find("/logs/") == std::string::npos &&
        path.find("lock") == std::string::npos)
      out[path] = file_text(path);
  }
  return out;
}
void RealRun::expect_same_run(const std::string& a, const std::string& b) {
  for (const char* name : {"loss", "grad_norm", "lr", "val_loss"})
    EXPECT_EQ(column(metrics(a), name), column(metrics(b), name)) << name << " of " << a << " and " << b;
  EXPECT_EQ(final_hash(a), final_hash(b)) << a << " and " << b;
}
std::vector<std::string> RealRun::processes_left() {
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

}  // namespace lockstep::tests
