// What stands around the ranks: MPI's words and memory, folders, programs that are not Lockstep's, an odd
// environment.
#include "tests/process/supervise/supervised.h"

namespace lockstep {
namespace {

// Folders of shared memory that this process's children made.
std::vector<std::string> shared_folders(int maker) {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
    if (entry.path().filename().string().rfind(str("lockstep.", geteuid(), ".", maker, "."), 0) == 0)
      out.push_back(entry.path());
  return out;
}

TEST_F(Supervise, SharedMemoryGoesWithTheRun) {
  auto process = start({"2000", "mpi"});
  auto pids = run().pids(3);
  auto segments = [&] {
    int n = 0;
    for (const auto& folder : shared_folders(process.pid()))
      for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
        n += entry.path().filename().string().rfind("vader_segment.", 0) == 0;
    return n;
  };
  ASSERT_TRUE(until(10, [&] { return segments() == 3; })) << process.output();
  kill(pids[1], SIGKILL);
  EXPECT_EQ(process.wait(5), kExitPeer);
  EXPECT_TRUE(shared_folders(process.pid()).empty());
}

TEST_F(Supervise, WhatAKilledTrainrunLeftTheNextOneRemoves) {
  auto process = start({"2000", "mpi"});
  auto pids = run().pids(3);
  ASSERT_TRUE(until(10, [&] { return shared_folders(process.pid()).size() == 1; }));
  kill(process.pid(), SIGKILL);
  EXPECT_EQ(process.wait(5), 128 + SIGKILL);
  ASSERT_TRUE(all_gone(pids, 3));
  EXPECT_EQ(shared_folders(process.pid()).size(), 1u);
  auto next = start({"2", "mpi"}, {}, "another");
  EXPECT_EQ(next.wait(15), kExitOk) << next.output();
  EXPECT_TRUE(shared_folders(process.pid()).empty());
}

TEST_F(Supervise, RankThatNeverJoinsIsNamed) {
  auto process = start({"2000", "mpi-never", "1"}, {.nproc = 3});
  EXPECT_EQ(process.wait(15), kExitPeer);
  EXPECT_HAS(process.output(),
             "root cause: rank 1 left early, with exit code 0 while its peers still worked");
}

// Open MPI tells its launcher why it ends a rank; here that is trainrun, which shows it.
TEST_F(Supervise, MpisOwnWordsAreShown) {
  auto process = start({"2000", "mpi-abort", "1", "3"}, {.nproc = 2});
  EXPECT_EQ(process.wait(15), launcher::kExitProgram);
  EXPECT_HAS(process.output(), "[rank 1] MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD");
  EXPECT_HAS(process.output(), "root cause: rank 1 exited with code 5 and left no error record; step 3");
}

// Ranks that do not use MPI may end when they like.
TEST_F(Supervise, RanksWithoutMpiEndOneByOne) {
  std::string script = scratch_path() / "p";
  std::ofstream(script) << "#!/bin/sh\n[ $RANK = 0 ] && sleep 1.5\necho rank $RANK is done\n";
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  Process process({FAKE_TRAINRUN, folder(), "2", "0", "0", "5", script}, scratch_path() / "out");
  EXPECT_EQ(process.wait(10), kExitOk) << process.output();
  EXPECT_HAS(process.output(), "rank 0 is done\n");
  EXPECT_HAS(process.output(), "[rank 1] rank 1 is done\n");
}

TEST_F(Supervise, GrandchildrenAreEnded) {
  for (int nproc : {1, 2}) {
    auto process = start({"5", "grandchild"}, {.nproc = nproc});
    EXPECT_EQ(process.wait(8), kExitOk);
  }
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::string environment = file_text(str("/proc/", name, "/environ"));
    EXPECT_EQ(environment.find("LOCKSTEP_RUN_DIR=" + folder()), std::string::npos)
        << "process " << name << " is left";
  }
}

TEST_F(Supervise, FolderInUseIsRefused) {
  auto first = start({"2000"}, {.nproc = 1});
  ASSERT_NE(run().pid(0), 0);
  auto second = start({"1"}, {.nproc = 1});
  EXPECT_EQ(second.wait(15), kExitUser);
  EXPECT_HAS(second.output(), str("is in use by another trainrun (process ", first.pid(), ", since 2"));
  EXPECT_HAS(second.output(), "); wait for it, stop it, or choose --name=OTHER");
  kill(first.pid(), SIGTERM);
  EXPECT_EQ(first.wait(5), kExitStopped);
}

TEST_F(Supervise, MissingProgramAndUnwritableFolder) {
  Process missing({FAKE_TRAINRUN, folder(), "1", "0", "0", "1", "/no/such/program"}, scratch_path() / "out");
  EXPECT_EQ(missing.wait(10), kExitUser);
  EXPECT_HAS(missing.output(), "cannot start /no/such/program: No such file or directory");
  Process unwritable({FAKE_TRAINRUN, "/proc/run", "1", "0", "0", "1", FAKE_WORKER}, scratch_path() / "out");
  EXPECT_EQ(unwritable.wait(10), kExitUser);
  EXPECT_HAS(unwritable.output(), "cannot write the run's folder /proc/run: ");
}

// mpirun's words and codes are no more: nothing of it is needed, and what cannot be is told.
TEST_F(Supervise, OddSurroundingsAreToldOrMakeNoDifference) {
  auto code = [&](const char* name, std::map<std::string, std::string> variables) {
    auto process = start({"3", "mpi"}, {.nproc = 2, .variables = std::move(variables)}, name);
    int code = process.wait(20);
    EXPECT_EQ(code, kExitOk) << name << ": " << process.output();
  };
  code("path", {{"PATH", "/nowhere"}});
  code("forbidden", {{"PATH", "/proc/1/root/secret:/usr/bin"}});
  code("tmp", {{"TMPDIR", "/proc"}});
  code("outer", {{"PMIX_RANK", "3"},
                 {"PMIX_NAMESPACE", "other"},
                 {"PMIX_SERVER_URI41", "pmix-server.1;tcp4://127.0.0.1:9"},
                 {"OMPI_COMM_WORLD_SIZE", "7"}});
  std::vector<std::string> empty_words = {"/usr/bin/env", "-i"};
  for (const char* name :
       {"LD_PRELOAD", "ASAN_OPTIONS", "LSAN_OPTIONS", "TSAN_OPTIONS", "OMP_TOOL_LIBRARIES"})
    if (const char* value = std::getenv(name))
      empty_words.push_back(str(name, "=", value));  // of a sanitizer
  const std::vector<std::string> command = {FAKE_TRAINRUN, folder("empty"), "2", "0",  "0",
                                            "1",           FAKE_WORKER,     "3", "mpi"};
  empty_words.insert(empty_words.end(), command.begin(), command.end());
  Process empty(empty_words, scratch_path() / "out");
  EXPECT_EQ(empty.wait(10), kExitOk) << empty.output();
}

}  // namespace
}  // namespace lockstep
