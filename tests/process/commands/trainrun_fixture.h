// trainrun's command line beside a fake of what trains, in a folder of its own.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "tests/process/trainrun_process.h"
#include "tests/support/scratch_folder.h"

namespace lockstep {

#define EXPECT_HAS(text, part) \
  EXPECT_NE((text).find(part), std::string::npos) << "missing: " << (part) << "\nin:\n" << (text)

class Trainrun : public ::testing::Test {
 protected:
  struct Result {
    int code;
    std::string output;
  };
  Result trainrun(std::vector<std::string> words) {
    words.insert(words.begin(), TRAINRUN);
    Process process(words, scratch_.path("out"));
    int code = process.wait(20);
    return {code, process.output()};
  }
  // Runs are made under the current folder.
  void SetUp() override {
    previous_ = std::filesystem::current_path();
    std::filesystem::current_path(scratch_.path(""));
    scratch_.write(
        "c.json",
        R"({"name": "first", "data": {"paths": ["a"]}, "train": {"steps": 4}, "log": {"every": 2}})");
  }
  void TearDown() override { std::filesystem::current_path(previous_); }
  ScratchFolder scratch_;
  std::filesystem::path previous_;
};

}  // namespace lockstep
