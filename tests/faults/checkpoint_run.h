// A fault of checkpoints: a tiny run, its undisturbed twin, and a disk that breaks.
#pragma once

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <functional>

#include "tests/faults/fault_run.h"

namespace lockstep::tests {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

class CheckpointRun : public FaultRun {
 protected:
  void SetUp() override {
    FaultRun::SetUp();
    write_tiny();
  }
  static Words on(int nproc, Words more = {}) {
    Words words = {"--nproc", str(nproc), "--train.device=cpu", "c.json"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  // The run that nothing happens to, as runs/whole.
  void train_whole(Words more = {}) {
    more.push_back("--name=whole");
    train(on(1, more));
  }
  // With a disk that breaks as broken_disk.c reads it.
  Variables broken(const std::string& rules, const std::string& when = "") const {
    Variables out = {{"LD_PRELOAD", BROKEN_DISK}, {"BROKEN_DISK", rules}};
    if (!when.empty()) out["BROKEN_DISK_WHEN"] = when;
    return out;
  }
  // Every step of the two, and the end. (Each part of a run ends with a validation of its own.)
  static void expect_same_steps(const std::string& a, const std::string& b) {
    for (const char* name : {"loss", "grad_norm", "lr"})
      EXPECT_EQ(column(metrics(a), name), column(metrics(b), name)) << name;
    EXPECT_EQ(final_hash(a), final_hash(b));
  }
  static void flip(const std::string& path, int64_t at) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(at);
    char byte = static_cast<char>(file.get());
    file.seekp(at);
    file.put(static_cast<char>(byte ^ 1));
  }
  static std::string step(int64_t number, const std::string& run = "run") {
    return str("runs/", run, "/ckpt/step-", number);
  }
  // Checkpoints of steps 20, 40 and 60, then the damage; the next start takes `from`, says `words`, and ends
  // with the bits of the whole run.
  void falls_back(const std::function<void()>& damage, const std::string& words, int64_t from) {
    fs::remove_all("runs/run");
    train(on(2, {"--train.steps=60"}));
    damage();
    const Result resumed = trainrun(on(2));
    ASSERT_EQ(resumed.code, kExitOk) << resumed.output;
    EXPECT_HAS(resumed.output, words);
    EXPECT_HAS(resumed.output, str("ckpt/step-", from, " (step ", from, ", state "));
    EXPECT_EQ(final_hash("run"), final_hash("whole")) << words;
  }
};

}  // namespace lockstep::tests
