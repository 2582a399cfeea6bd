// Every file of the corpora through its target, in the normal build: what was found once stays mended.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/fuzz/targets.h"

namespace lockstep::fuzz {
namespace {

class Replay : public testing::TestWithParam<Target> {};

TEST_P(Replay, EveryFileOfTheCorpus) {
  const auto folder = std::filesystem::path(FUZZ_CORPUS) / GetParam().name;
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::stringstream bytes;
    bytes << std::ifstream(entry.path(), std::ios::binary).rdbuf();
    SCOPED_TRACE(entry.path().string());
    const auto start = std::chrono::steady_clock::now();
    EXPECT_NO_THROW(GetParam().run(bytes.str()));
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2))
        << "an answer takes less than a second";
    ++files;
  }
  EXPECT_GE(files, 3) << folder << " has too few seeds";
}

INSTANTIATE_TEST_SUITE_P(Fuzz, Replay, testing::ValuesIn(kTargets),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace lockstep::fuzz
