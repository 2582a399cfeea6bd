// The folder of checkpoints in memory: its name, who may have it, and what is removed of others.
#include "launcher/supervise/memory_folder.h"

#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/error.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::launcher {
namespace {

namespace fs = std::filesystem;

std::string last(const std::string& path) { return fs::path(path).filename(); }

TEST(MemoryFolder, ARunHasOneOfItsOwn) {
  ScratchFolder scratch;
  const std::string run = scratch.path("runs/a b.c"), folder = memory_folder_of(run);
  EXPECT_EQ(memory_folder_of(run), folder);
  EXPECT_EQ(last(folder).find(str("lockstep-memory.", geteuid(), ".a_b_c.")), 0u) << folder;
  EXPECT_EQ(fs::path(folder).parent_path(), "/dev/shm");
  fs::remove_all(run);
  EXPECT_NE(memory_folder_of(run), folder) << "another run of that name";
}

TEST(MemoryFolder, OthersHaveNoPartInIt) {
  ScratchFolder scratch;
  const std::string folder = scratch.path("memory");
  make_memory_folder(folder, "runs/a");
  struct stat at{};
  ASSERT_EQ(stat(folder.c_str(), &at), 0);
  EXPECT_EQ(at.st_mode & 07777, 0700u);
  make_memory_folder(folder, "runs/a");  // once more, by the next attempt
  auto refusal = [](const std::string& path) {
    try {
      make_memory_folder(path, "runs/a");
    } catch (const UserError& error) { return std::string(error.what()); }
    return std::string("none");
  };
  chmod(folder.c_str(), 0755);
  EXPECT_EQ(refusal(folder),
            str("checkpoint.memory_every keeps checkpoints in ", folder,
                ", which others may enter or own; mount a tmpfs at /dev/shm that you may write, "
                "or set checkpoint.memory_every=0"));
  scratch.write("file", std::string("x"));
  EXPECT_NE(refusal(scratch.path("file")).find(", which is no folder; "), std::string::npos);
  EXPECT_NE(refusal(scratch.path("no/such")).find(", which cannot be made: No such file"), std::string::npos);
}

// Of runs of this user whose folder is gone, or that began anew, and that no process holds.
TEST(MemoryFolder, ForgottenOnesGo) {
  ScratchFolder scratch;
  auto made = [&](const std::string& run) {
    const std::string path = scratch.path("shm/" + last(memory_folder_of(scratch.path(run))));
    fs::create_directories(scratch.path("shm"));
    make_memory_folder(path, scratch.path(run));
    scratch.write("shm/" + last(path) + "/.lock", std::string("x"));
    return path;
  };
  const std::string live = made("runs/live"), gone = made("runs/gone"), anew = made("runs/anew"),
                    held = made("runs/held");
  fs::create_directories(scratch.path("shm/lockstep.0.1.x"));
  for (const char* run : {"runs/gone", "runs/anew", "runs/held"}) fs::remove_all(scratch.path(run));
  memory_folder_of(scratch.path("runs/anew"));
  const int lock = open((held + "/.lock").c_str(), O_RDWR);
  ASSERT_EQ(flock(lock, LOCK_EX | LOCK_NB), 0);
  EXPECT_EQ(remove_forgotten_memory(scratch.path("shm")), 2);
  for (const auto& [path, there] : {std::pair(live, true), {gone, false}, {anew, false}, {held, true}})
    EXPECT_EQ(fs::exists(path), there) << path;
  close(lock);
  EXPECT_EQ(remove_forgotten_memory(scratch.path("shm")), 1);
  EXPECT_TRUE(fs::exists(scratch.path("shm/lockstep.0.1.x")));
}

TEST(MemoryFolder, TheNewestStep) {
  ScratchFolder scratch;
  EXPECT_EQ(newest_step_in(scratch.path("none")), -1);
  for (const char* name : {"step-5", "step-12", "step-30.tmp", "other"})
    fs::create_directories(scratch.path(name));
  EXPECT_EQ(newest_step_in(scratch.path("")), 12);
}

}  // namespace
}  // namespace lockstep::launcher
