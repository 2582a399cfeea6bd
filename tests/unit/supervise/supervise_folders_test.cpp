// Folders of a run's logs and of MPI: whose they are, and what is removed of them.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "core/base/error.h"
#include "launcher/supervise/folders/mpi.h"
#include "launcher/supervise/folders/run.h"
#include "tests/support/scratch_folder.h"

namespace lockstep {

using namespace launcher;

namespace {

// A folder whose maker holds its lock stays, and one that somebody else may be making; the others of this
// user go.
TEST(MpiFolders, TheOnesOfTheDeadGo) {
  ScratchFolder top;
  const std::string own = str("lockstep.", geteuid(), "."), held = top.path(own + "1.aaaaaa"),
                    dead = top.path(own + "2.bbbbbb"), young = top.path(own + "3.cccccc"),
                    old = top.path(own + "4.dddddd"), other = top.path("lockstep.99999999.5.eeeeee"),
                    link = top.path(own + "6.ffffff"), target = top.path("target"),
                    mine = top.path(own + "mine");
  for (const auto& folder : {held, dead, young, old, other, target, mine})
    std::filesystem::create_directories(folder);
  for (const auto& folder : {held, dead, other, target}) std::ofstream(folder + "/lock") << "\n";
  std::ofstream(dead + "/vader_segment.0") << "data\n";
  std::filesystem::create_directory_symlink(target, link);
  std::filesystem::last_write_time(old,
                                   std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  const int lock = open((held + "/lock").c_str(), O_RDWR);
  ASSERT_EQ(flock(lock, LOCK_EX | LOCK_NB), 0);
  std::ofstream(mine + "/lock") << "\n";  // of a name that no trainrun gives
  EXPECT_EQ(remove_abandoned_folders(top.path("")), 2);
  for (const auto& folder : {held, young, other, link, target, mine})
    EXPECT_TRUE(std::filesystem::exists(folder)) << folder;
  for (const auto& folder : {dead, old}) EXPECT_FALSE(std::filesystem::exists(folder)) << folder;
  close(lock);
  EXPECT_EQ(remove_abandoned_folders(top.path("")), 1);
  EXPECT_EQ(remove_abandoned_folders("/no/such/folder"), 0);
}

// A number alone may be anybody's, as that of a service that has its logs there.
TEST(RunFolders, ALockOfSomebodyElseIsLeft) {
  ScratchFolder top;
  for (const char* text : {"4711", "4711\n", "4711\nnot a path\n", "4711\n\n"}) {
    top.write("logs/a/lock", std::string(text));
    RunFolder run(top.path("runs/a"));
    try {
      run.keep_logs_in(top.path("logs"));
      ADD_FAILURE() << text;
    } catch (const UserError& error) {
      EXPECT_EQ(std::string(error.what()),
                str(top.path("logs/a/lock"),
                    " is there and is no lock of trainrun, and is left as it is; move it away, or choose "
                    "another --log-dir, or choose --name=OTHER"));
    }
    std::ifstream file(top.path("logs/a/lock"));
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), text);
  }
  // An earlier version said no more in a run's folder, which has logs.
  top.write("runs/old/lock", std::string("4711\n"));
  EXPECT_THROW(RunFolder(top.path("runs/old")), UserError);
  std::filesystem::create_directories(top.path("runs/old/logs"));
  RunFolder(top.path("runs/old"));
}

// Old attempts go, and what another program names alike stays.
TEST(RunFolders, KeepAttemptsThatAreNoneOfARuns) {
  ScratchFolder top;
  top.write("logs/a/attempt-1/rank-0.log", std::string("precious"));
  top.write("logs/a/attempt-2/rank-0.log", std::string("ours"));
  top.write("logs/a/attempt-2/launcher.log", std::string("ours"));
  RunFolder run(top.path("runs/a"));
  run.keep_logs_in(top.path("logs"));
  run.new_attempt(1);
  EXPECT_TRUE(std::filesystem::exists(top.path("logs/a/attempt-1/rank-0.log")));
  EXPECT_FALSE(std::filesystem::exists(top.path("logs/a/attempt-2")));
  EXPECT_TRUE(std::filesystem::exists(top.path("logs/a/attempt-3")));
}

// Logs of --log-dir that an earlier version made have no lock; those of a run that was moved name its old
// place.
TEST(RunFolders, KeepLogsThatAreOlderOrMoved) {
  ScratchFolder top;
  const std::string run = top.path("runs/a"), logs = top.path("logs/a"), gone = top.path("old/runs/a");
  top.write("logs/a/attempt-1/rank-0.log", std::string("x"));
  std::filesystem::create_directories(run);
  std::filesystem::create_directory_symlink(logs, run + "/logs");
  RunFolder(run).keep_logs_in("");
  EXPECT_EQ(run_of_held(logs), run);
  std::filesystem::remove(logs + "/lock");
  std::ofstream(logs + "/lock") << "1\n" << gone << "\n";
  RunFolder(run).keep_logs_in("");
  EXPECT_EQ(run_of_held(logs), run);
  // One that is there keeps its own, and a folder of another name without a lock is nobody's.
  std::filesystem::create_directories(gone);
  std::ofstream(logs + "/lock") << "1\n" << gone << "\n";
  EXPECT_THROW(RunFolder(run).keep_logs_in(""), UserError);
  top.write("logs/b/attempt-1/rank-0.log", std::string("x"));
  std::filesystem::remove(run + "/logs");
  std::filesystem::create_directory_symlink(top.path("logs/b"), run + "/logs");
  try {
    RunFolder(run).keep_logs_in("");
    FAIL() << "logs of another name";
  } catch (const UserError& error) {
    EXPECT_EQ(
        std::string(error.what()),
        str(run, "/logs is a link to ", top.path("logs/b"),
            ", which has no lock, as logs of an earlier version, and the name of another run. If they are "
            "this run's, give them its name: mv ",
            top.path("logs/b"), " ", logs, " && ln -sfn ", logs, " ", run, "/logs; if not, remove the link"));
  }
  std::filesystem::remove_all(logs);  // what the words say helps
  ASSERT_EQ(
      std::system(str("mv ", top.path("logs/b"), " ", logs, " && ln -sfn ", logs, " ", run, "/logs").c_str()),
      0);
  RunFolder(run).keep_logs_in("");
  EXPECT_EQ(run_of_held(logs), run);
}

TEST(RunFolders, TellWhatStandsInTheirWay) {
  ScratchFolder top;
  const auto refusal = [&](const std::string& run, const std::string& dir) -> std::string {
    try {
      RunFolder folder(run);
      folder.keep_logs_in(dir);
      return folder.new_attempt();
    } catch (const UserError& error) { return error.what(); }
  };
  const std::string runs = top.path("runs");
  EXPECT_EQ(refusal(runs + "/a", runs),
            str("--log-dir ", runs, ": ", runs, "/a is the run's own folder, whose logs lie in ", runs,
                "/a/logs anyhow; leave --log-dir out, or choose another"));
  std::filesystem::create_directory_symlink(runs, top.path("link"));
  EXPECT_NE(refusal(runs + "/a", top.path("link")).find(" is the run's own folder"), std::string::npos);
  top.write("runs/b/logs", std::string("precious"));
  EXPECT_EQ(refusal(runs + "/b", ""),
            str("cannot write ", runs, "/b/logs/attempt-1: Not a directory; look at ", runs,
                "/b/logs, which must be a folder that you may write, or choose --name=OTHER"));
  // Names that no counter made are none of its own.
  for (const char* name : {"attempt-9223372036854775807", "attempt-007", "attempt-3"})
    std::filesystem::create_directories(runs + "/c/logs/" + name);
  EXPECT_EQ(refusal(runs + "/c", ""), runs + "/c/logs/attempt-4");
}

// Nothing is left of a start that was for nothing: not where the run's folder was made, nor where it was
// there.
TEST(RunFolders, LeaveNoLogsElsewhereOfNothing) {
  ScratchFolder top;
  for (const bool there : {false, true}) {
    const std::string run = top.path(there ? "runs/b" : "runs/a"), logs = top.path("logs");
    if (there) top.write("runs/b/thesis.txt", std::string("precious"));
    RunFolder folder(run);
    folder.keep_logs_in(logs);
    top.write(str("logs/", there ? "b" : "a", "/nodes/node-1.json"), std::string("{}"));
    EXPECT_EQ(folder.remove_unused(), !there);
    EXPECT_TRUE(std::filesystem::is_empty(logs)) << there;
    EXPECT_EQ(std::filesystem::exists(run), there);
    EXPECT_FALSE(std::filesystem::exists(run + "/lock"));
    EXPECT_FALSE(std::filesystem::is_symlink(run + "/logs"));
  }
  EXPECT_TRUE(std::filesystem::exists(top.path("runs/b/thesis.txt")));
}

TEST(MpiFolders, KeepWhatIsNoneOfMpis) {
  ScratchFolder top;
  for (const char* file : {"lock", "1/vader_segment.vm.0.35.1", "1/2/osc_sm.vm.3.4.5",
                           "1/0/coll-sm-cid-0-name-x.mmap", "2/a_cid-0-7.sm", "pmix.vm.tool"})
    top.write(str("mpi/", file), std::string("x"));
  for (const char* file : {"1/2/thesis.txt", "lock/x"})
    top.write(str("other/", file), std::string("precious"));
  std::filesystem::create_directories(top.path("target"));
  top.write("target/vader_segment.1", std::string("precious"));
  std::filesystem::create_directory_symlink(top.path("target"), top.path("other/1/3"));
  EXPECT_EQ(remove_mpi_folder(top.path("mpi")), "");
  EXPECT_FALSE(std::filesystem::exists(top.path("mpi")));
  EXPECT_EQ(remove_mpi_folder(top.path("other")),
            str(top.path("other"),
                " is left: it holds 1/2/thesis.txt, which is not known for MPI's; move it away, or "
                "remove the folder"));
  for (const char* file : {"other/1/2/thesis.txt", "other/lock/x", "target/vader_segment.1"})
    EXPECT_TRUE(std::filesystem::exists(top.path(file))) << file;
}

TEST(MpiFolders, AreOneUsersOwnAndGoWithTheirMaker) {
  std::string path;
  {
    const mode_t before = umask(0);
    MpiFolder folder(1);
    umask(before);
    path = folder.path();
    struct stat is{};
    ASSERT_EQ(stat(path.c_str(), &is), 0);
    EXPECT_EQ(is.st_mode & 07777, 0700u);
    MpiFolder beside(1);
    EXPECT_TRUE(std::filesystem::exists(path)) << "it is in use";
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace lockstep
