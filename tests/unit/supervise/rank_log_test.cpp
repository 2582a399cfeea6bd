// A rank's log that grows is cut at its limit, and who follows it misses no line.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "core/base/error.h"
#include "launcher/supervise/launch/console.h"
#include "launcher/supervise/worker/rank_log.h"
#include "tests/support/scratch_folder.h"

namespace lockstep {

using namespace launcher;

namespace {

// stdout and stderr of this process, given back at the end.
class OwnOutput {
 public:
  OwnOutput() {
    std::fflush(nullptr);
    out_ = dup(STDOUT_FILENO), err_ = dup(STDERR_FILENO);
  }
  ~OwnOutput() {
    std::fflush(nullptr);
    dup2(out_, STDOUT_FILENO), dup2(err_, STDERR_FILENO);
    close(out_), close(err_);
  }

 private:
  int out_, err_;
};

std::vector<std::string> lines_of(LineCutter& cutter) {
  std::vector<std::string> out;
  for (LineCutter::Piece piece; cutter.next(piece);) out.push_back(piece.text);
  return out;
}
int64_t bytes(const std::string& path) {
  return std::filesystem::exists(path) ? static_cast<int64_t>(std::filesystem::file_size(path)) : -1;
}

TEST(RankLogs, ALargeOneIsCutAndItsFollowerMissesNothing) {
  ScratchFolder folder;
  const std::string path = folder.path("rank-0.log");
  LogTail tail(path);
  LineCutter cutter;
  std::vector<std::string> seen, wanted;
  {
    OwnOutput restored;
    RankLog log(path, 1000);
    ASSERT_TRUE(log.open());
    log.take_output();
    for (int i = 0; i < 300; ++i) {
      wanted.push_back(str("line ", i));
      std::printf("line %d\n", i);
      std::fflush(stdout);
      if (i % 3 == 0) log.rotate_if_large();
      if (i % 7 == 0) tail.read(cutter);
    }
  }
  tail.read(cutter), tail.read(cutter);
  EXPECT_EQ(lines_of(cutter), wanted);
  EXPECT_GT(bytes(path + ".1"), 1000);
  EXPECT_LT(bytes(path + ".1"), 1100);
  EXPECT_LE(bytes(path), 1100);
}

TEST(RankLogs, WithoutALimitNoneIsCut) {
  ScratchFolder folder;
  const std::string path = folder.path("rank-0.log");
  {
    OwnOutput restored;
    RankLog log(path, 0);
    ASSERT_TRUE(log.open());
    log.take_output();
    std::printf("%s\n", std::string(5000, 'x').c_str());
    std::fflush(stdout);
    log.rotate_if_large();
  }
  EXPECT_EQ(bytes(path), 5001);
  EXPECT_EQ(bytes(path + ".1"), -1);
}

TEST(RankLogs, ALimitIsANumber) {
  setenv("LOCKSTEP_LOG_LIMIT", "much", 1);
  try {
    RankLog("log");
    ADD_FAILURE() << "taken";
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(),
                 "environment: LOCKSTEP_LOG_LIMIT is \"much\"; give a number of MiB, or 0 for no limit");
  }
  unsetenv("LOCKSTEP_LOG_LIMIT");
}

}  // namespace
}  // namespace lockstep
