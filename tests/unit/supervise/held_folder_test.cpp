// A folder on a file system without locks: this program's own flock(2) fails as that of NFS, Lustre or FUSE.
#include "launcher/supervise/folders/held.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "core/base/error.h"
#include "launcher/supervise/folders/run.h"
#include "tests/support/scratch_folder.h"

namespace {
int g_reason = 0;  // 0: the kernel's own
}

extern "C" int flock(int fd, int operation) noexcept {
  if (g_reason == 0) return static_cast<int>(syscall(SYS_flock, fd, operation));
  errno = g_reason;
  return -1;
}

namespace lockstep::launcher {
namespace {

class WithoutLocks : public ::testing::Test {
 protected:
  void TearDown() override { g_reason = 0; }
  std::string refusal(const std::string& run) {
    try {
      RunFolder folder(run);
    } catch (const UserError& error) { return error.what(); }
    return "none";
  }
  ScratchFolder top_;
};

TEST_F(WithoutLocks, ARunIsRefusedAndLeavesNothing) {
  const std::string run = top_.path("runs/a");
  std::filesystem::create_directories(top_.path("runs"));
  g_reason = ENOLCK;
  EXPECT_EQ(refusal(run), str("cannot write the run's folder ", run, ": ", run,
                              "/lock cannot be locked: No locks available; start on another file system, or "
                              "choose --name=OTHER"));
  EXPECT_FALSE(std::filesystem::exists(run));
  top_.write("runs/a/thesis.txt", std::string("precious"));
  EXPECT_NE(refusal(run), "none");
  EXPECT_TRUE(std::filesystem::exists(run + "/thesis.txt"));
  EXPECT_FALSE(std::filesystem::exists(run + "/lock"));
}

TEST_F(WithoutLocks, LogsElsewhereAreWarnedOf) {
  for (const int reason : {ENOLCK, EOPNOTSUPP, ENOSYS}) {
    const std::string name = str("run", reason), logs = top_.path("logs/" + name);
    RunFolder folder(top_.path("runs/" + name));
    g_reason = reason;
    ::testing::internal::CaptureStderr();
    folder.keep_logs_in(top_.path("logs"));
    EXPECT_EQ(::testing::internal::GetCapturedStderr(),
              str("trainrun: warning: ", logs, "/lock cannot be locked: ", std::strerror(reason),
                  "; the run goes on, and another that writes ", logs, " is not refused\n"));
    EXPECT_EQ(run_of_held(logs), top_.path("runs/" + name));
    g_reason = 0;
  }
}

// Any other failure is none of the file system's kind.
TEST_F(WithoutLocks, OtherFailuresAreRefused) {
  RunFolder folder(top_.path("runs/b"));
  g_reason = EIO;
  try {
    folder.keep_logs_in(top_.path("logs"));
    FAIL() << "no lock was taken";
  } catch (const UserError& error) {
    EXPECT_EQ(std::string(error.what()),
              str("--log-dir ", top_.path("logs"), ": cannot write ", top_.path("logs/b"), ": ",
                  top_.path("logs/b/lock"),
                  " cannot be locked: Input/output error; start on another file system, or choose another "
                  "--log-dir, or choose --name=OTHER"));
  }
  EXPECT_FALSE(std::filesystem::exists(top_.path("logs/b")));
}

}  // namespace
}  // namespace lockstep::launcher
