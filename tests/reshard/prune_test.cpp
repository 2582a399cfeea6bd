// Pruning: the newest whole checkpoint stays whatever is asked, and a folder that a run holds is left alone.
#include "checkpoint/tools/prune.h"

#include <sys/wait.h>
#include <unistd.h>

#include "tests/reshard/folder_case.h"

namespace lockstep {

using namespace checkpoint;

namespace {

std::string error_of(const std::function<void()>& run) {
  try {
    run();
  } catch (const UserError& error) { return error.what(); }
  return "no error";
}
std::string told(const std::vector<PrunedStep>& steps) {
  std::string out;
  for (const auto& one : steps) out += str(one.step, one.removed ? " removed" : " stays: " + one.why, "\n");
  return out;
}

TEST(Prune, KeepsTheNewestAndEveryKth) {
  ScratchFolder folder;
  const std::string dir = folder.path("ckpt");
  for (int64_t step : {10, 20, 30, 40, 50, 60}) save(dir, step, step / 10);
  const auto before = names(dir);
  const std::string plan =
      "60 stays: the newest whole one\n50 stays: one of the newest 2\n40 stays: every 20 steps\n"
      "30 removed\n20 stays: every 20 steps\n10 removed\n";
  EXPECT_EQ(told(prune_checkpoints(dir, {2, 20, true})), plan);
  EXPECT_EQ(names(dir), before) << "nothing is removed where it is only told";
  const auto done = prune_checkpoints(dir, {2, 20, false});
  EXPECT_EQ(told(done), plan);
  for (const auto& one : done) EXPECT_GT(one.bytes, 0);
  EXPECT_EQ(names(dir),
            (std::vector<std::string>{".lock", "latest", "step-20", "step-40", "step-50", "step-60"}));
  EXPECT_EQ(load(dir), (Found{60, 6}));
}

// A rewound run commits small steps last: newest is what was committed last, and latest follows it.
TEST(Prune, NewestIsWhatWasCommittedLast) {
  ScratchFolder folder;
  const std::string dir = folder.path("ckpt");
  save(dir, 40, 4);
  save(dir, 20, 2);
  folder.write("ckpt/latest", std::string("step-40\n"));
  EXPECT_EQ(told(prune_checkpoints(dir, {})), "20 stays: the newest whole one\n40 removed\n");
  EXPECT_EQ(text_of(dir + "/latest"), "step-20\n");
  EXPECT_EQ(load(dir), (Found{20, 2}));
}

TEST(Prune, DamagedOnesDoNotCountAndStay) {
  ScratchFolder folder;
  const std::string dir = folder.path("ckpt");
  for (int64_t step : {10, 20, 30, 40}) save(dir, step, step / 10);
  flip_byte(dir + "/step-40/rank-0.safetensors",
            static_cast<int64_t>(fs::file_size(dir + "/step-40/rank-0.safetensors")) - 1);
  fs::remove(dir + "/step-30/manifest.json");
  const auto done = prune_checkpoints(dir, {});
  EXPECT_EQ(done.size(), 4u);
  for (const auto& one : done) EXPECT_EQ(one.removed, one.step == 10) << one.step << ": " << one.why;
  EXPECT_EQ(load(dir), (Found{20, 2}));
  flip_byte(dir + "/step-20/rank-0.safetensors",
            static_cast<int64_t>(fs::file_size(dir + "/step-20/rank-0.safetensors")) - 1);
  const std::string none = error_of([&] { prune_checkpoints(dir, {}); });
  EXPECT_NE(none.find(str("none of the 3 checkpoints in ", dir, " is whole, and none is removed: ")),
            std::string::npos)
      << none;
}

// A name like a rank's is none that the manifest lists.
TEST(Prune, AFileThatNoManifestListsIsAStrangers) {
  ScratchFolder folder;
  const std::string dir = folder.path("ckpt");
  for (int64_t step : {10, 20, 30}) save(dir, step, 1);
  folder.write("ckpt/step-10/rank-7.safetensors", std::string("precious"));
  EXPECT_EQ(told(prune_checkpoints(dir, {})),
            "30 stays: the newest whole one\n20 removed\n"
            "10 stays: it holds rank-7.safetensors, which is no file of a checkpoint\n");
  EXPECT_EQ(text_of(dir + "/step-10/rank-7.safetensors"), "precious");
  // Nor does it go with its folder where the step is saved anew, or with a later save.
  for (int64_t step : {10, 40}) save(dir, step, 2, 1);
  EXPECT_EQ(text_of(dir + "/step-10.old/rank-7.safetensors.foreign"), "precious");
  EXPECT_EQ(names(dir + "/step-10.old").size(), 1u);
  EXPECT_EQ(load(dir), (Found{40, 2}));
}

TEST(Prune, Refusals) {
  ScratchFolder folder;
  const std::string dir = folder.path("ckpt");
  save(dir, 10, 1);
  EXPECT_EQ(error_of([&] { prune_checkpoints(dir, {0}); }),
            "--keep is 0; it must be at least 1: the newest whole checkpoint stays");
  EXPECT_EQ(error_of([&] { prune_checkpoints(dir, {1, -5}); }),
            "--keep-every is -5; it must be a number of steps, 1 or more");
  fs::create_directories(folder.path("none"));
  EXPECT_EQ(error_of([&] { prune_checkpoints(folder.path("none"), {1, 0, true}); }),
            folder.path("none") + " holds no checkpoint; name a run (runs/NAME) or its ckpt folder");
  // Another process holds the folder, as a run does between its saves.
  int ready[2], done[2];
  ASSERT_EQ(pipe(ready), 0);
  ASSERT_EQ(pipe(done), 0);
  const pid_t child = fork();
  if (child == 0) {
    char byte = 0;
    auto lock = lock_checkpoints(dir);
    if (write(ready[1], &byte, 1) != 1 || read(done[0], &byte, 1) != 1) _exit(1);
    _exit(0);
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  const std::string held = error_of([&] { prune_checkpoints(dir, {}); });
  EXPECT_NE(held.find(str("checkpoint folder ", dir, " is in use by ")), std::string::npos) << held;
  EXPECT_EQ(told(prune_checkpoints(dir, {1, 0, true})), "10 stays: the newest whole one\n");
  ASSERT_EQ(write(done[1], &byte, 1), 1);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
}

}  // namespace
}  // namespace lockstep
