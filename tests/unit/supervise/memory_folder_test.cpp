// The folder of checkpoints in memory: its name, who may have it, and what is removed of others.
#include "launcher/supervise/folders/memory.h"

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

// A copy of a run's folder, with its word in it, is another run: neither goes on from the other's
// checkpoints.
TEST(MemoryFolder, ACopyOfARunHasAnother) {
  ScratchFolder scratch;
  fs::create_directories(scratch.path("runs"));
  const std::string run = scratch.path("runs/a"), copy = scratch.path("runs/b/a"),
                    folder = memory_folder_of(run);
  make_memory_folder(folder, run);
  fs::create_directories(copy);
  fs::copy_file(run + "/memory-id", copy + "/memory-id");
  EXPECT_NE(memory_folder_of(copy), folder);
  EXPECT_EQ(memory_folder_of(run), folder);
  fs::rename(run, scratch.path("moved"));  // and one that was moved takes them along
  fs::create_directories(scratch.path("elsewhere"));
  fs::rename(scratch.path("moved"), scratch.path("elsewhere/a"));
  EXPECT_EQ(memory_folder_of(scratch.path("elsewhere/a")), folder);
  EXPECT_EQ(remove_memory_folder(folder), "");
}

TEST(MemoryFolder, WhatIsNotOfACheckpointOrIsHeldStays) {
  ScratchFolder scratch;
  const std::string folder = scratch.path("memory");
  make_memory_folder(folder, "runs/a");
  for (const char* file :
       {"step-4/manifest.json", "step-4/rank-0.safetensors", "step-6.tmp/rank-1.safetensors", "latest"})
    scratch.write(str("memory/", file), std::string("x"));
  scratch.write("memory/.lock", std::string("process 1 on h\n"));
  const int lock = open((folder + "/.lock").c_str(), O_RDWR);
  ASSERT_EQ(flock(lock, LOCK_EX | LOCK_NB), 0);
  EXPECT_EQ(remove_memory_folder(folder), folder + " is left: a process holds its lock");
  EXPECT_TRUE(fs::exists(folder + "/step-4/manifest.json"));
  close(lock);
  scratch.write("memory/step-4/thesis.txt", std::string("precious"));
  fs::create_symlink(scratch.path(""), folder + "/step-8");
  EXPECT_EQ(remove_memory_folder(folder),
            folder + " is left: it holds step-4/thesis.txt, which is no checkpoint's");
  EXPECT_FALSE(fs::exists(folder + "/step-4/manifest.json"));
  fs::remove(folder + "/step-4/thesis.txt");
  EXPECT_EQ(remove_memory_folder(folder), folder + " is left: it holds step-8, which is no checkpoint's");
  EXPECT_TRUE(fs::is_symlink(folder + "/step-8")) << "no link of ours";
  fs::remove(folder + "/step-8");
  EXPECT_EQ(remove_memory_folder(folder), "");
  EXPECT_FALSE(fs::exists(folder));
  EXPECT_TRUE(fs::exists(scratch.path(""))) << "what a link led to";
  fs::create_directory_symlink(scratch.path(""), folder);
  EXPECT_NE(remove_memory_folder(folder), "");
  EXPECT_TRUE(fs::is_symlink(folder));
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
                    held = made("runs/held"), hidden = made("runs/hidden"), lost = made("runs/lost");
  fs::create_directories(scratch.path("shm/lockstep.0.1.x"));
  // Old and without a word of a run, but of no form that trainrun makes.
  const std::string mine = scratch.path(str("shm/lockstep-memory.", geteuid(), ".mine"));
  fs::create_directories(mine);
  fs::last_write_time(mine, fs::file_time_type::clock::now() - std::chrono::hours(1));
  // As another container leaves them, whose run cannot be seen here: one of today, one of the day before yesterday.
  for (const std::string& path : {hidden, lost})
    scratch.write("shm/" + last(path) + "/run", std::string("/workspace/runs/a\n1:2 mnt:[3]\n"));
  fs::last_write_time(lost, fs::file_time_type::clock::now() - std::chrono::hours(48));
  for (const char* run : {"runs/gone", "runs/anew", "runs/held"}) fs::remove_all(scratch.path(run));
  memory_folder_of(scratch.path("runs/anew"));
  const int lock = open((held + "/.lock").c_str(), O_RDWR);
  ASSERT_EQ(flock(lock, LOCK_EX | LOCK_NB), 0);
  EXPECT_EQ(remove_forgotten_memory(scratch.path("shm")), 3);
  for (const auto& [path, there] :
       {std::pair(live, true), {gone, false}, {anew, false}, {held, true}, {hidden, true}, {lost, false}})
    EXPECT_EQ(fs::exists(path), there) << path;
  close(lock);
  EXPECT_EQ(remove_forgotten_memory(scratch.path("shm")), 1);
  EXPECT_TRUE(fs::exists(scratch.path("shm/lockstep.0.1.x")));
  EXPECT_TRUE(fs::exists(mine));
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
