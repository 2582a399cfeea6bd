// Step folders that nobody may remove, or that are links.
#include "checkpoint/place.h"
#include "tests/reshard/folder_case.h"
#include "tests/support/fault_storage.h"

namespace lockstep {

using namespace checkpoint;

namespace {

std::string refusal(const std::string& dir, int ranks) {
  try {
    load(dir, ranks);
  } catch (const UserError& error) { return error.what(); }
  return "none";
}

TEST(ForeignSteps, ALinkToACheckpointIsReadAndNoRunGoesOnFromIt) {
  for (const bool older : {false, true})
    for (const bool mounted : {true, false}) {
      ScratchFolder folder;
      const std::string dir = folder.path("ckpt"), archive = folder.path("archive"), link = dir + "/step-40";
      if (older) save(dir, 10, 1);
      save(dir, 40, 4);
      fs::create_directories(archive);
      fs::rename(link, archive + "/step-40");
      fs::create_directory_symlink(archive + "/step-40", link);
      if (!mounted) fs::rename(archive, folder.path("elsewhere"));
      for (int ranks : {1, 2})
        EXPECT_EQ(
            refusal(dir, ranks),
            str(ranks > 1 ? "rank 0: " : "", link, " is a link to ", archive,
                "/step-40, and no run goes on from a checkpoint behind one: it may come from elsewhere. "
                "Move ",
                archive,
                "/step-40 back in its place; or remove the link, to go on without it; or start another "
                "--name with train.init_from=",
                link, ", which takes the weights alone"));
      EXPECT_EQ(list_checkpoints(dir).size(), static_cast<size_t>(older + mounted));
      if (mounted) {
        EXPECT_EQ(newest_checkpoint(dir), link) << "readers follow it";
        fs::remove(dir + "/latest");
        EXPECT_NE(refusal(dir, 1).find(link + " is a link to "), std::string::npos);
        save(dir, 50, 5, 1);  // keeps one, and counts none behind a link
        EXPECT_TRUE(fs::is_symlink(link));
        EXPECT_TRUE(fs::exists(link + "/manifest.json"));
        EXPECT_FALSE(fs::exists(dir + "/step-10"));
        fs::remove(link);
        fs::rename(archive + "/step-40", link);
        EXPECT_EQ(load(dir), (Found{50, 5})) << "moved back";
      }
    }
}

// A link to anything else is somebody's own.
TEST(ForeignSteps, ALinkToNoCheckpointIsPassedOver) {
  ScratchFolder folder;
  const std::string dir = folder.path("ckpt");
  save(dir, 10, 1);
  folder.write("precious/data.txt", std::string("precious"));
  fs::create_directory_symlink(folder.path("precious"), dir + "/step-20");
  fs::create_symlink("nowhere", dir + "/step-30");
  EXPECT_EQ(load(dir), (Found{10, 1}));
  EXPECT_EQ(list_checkpoints(dir).size(), 1u);
}

// Whatever keeps one checkpoint from being removed, the others go, and the reason is said once.
TEST(ForeignSteps, OneThatStaysHindersNoOther) {
  ScratchFolder folder;
  const std::string dir = folder.path("ckpt");
  for (int64_t step : {10, 20, 30}) save(dir, step, 1);
  folder.write("ckpt/step-10.tmp/notes", std::string("precious"));
  std::string said;
  for (int64_t step : {40, 50, 60}) {
    testing::internal::CaptureStderr();
    save(dir, step, 2, 2);
    said += testing::internal::GetCapturedStderr();
  }
  EXPECT_EQ(names(dir),
            (std::vector<std::string>{".lock", "latest", "step-10", "step-10.tmp", "step-50", "step-60"}));
  EXPECT_EQ(text_of(dir + "/step-10.tmp/notes"), "precious");
  const std::string words = str(dir, "/step-10 is kept: ", dir,
                                "/step-10.tmp is there, and holds no file of a checkpoint; move it away, and "
                                "the next save removes the folder");
  ASSERT_NE(said.find(words), std::string::npos) << said;
  EXPECT_EQ(said.find(words), said.rfind(words)) << said;
  EXPECT_EQ(said.find("tidying up after it failed"), std::string::npos) << said;
  fs::remove_all(dir + "/step-10.tmp");
  save(dir, 70, 3, 2);
  EXPECT_EQ(names(dir), (std::vector<std::string>{".lock", "latest", "step-60", "step-70"}));
}

// Each operation of a removal fails once: the other checkpoints go all the same, and the next save removes
// what was left.
TEST(ForeignSteps, AFailureHindersNoOther) {
  for (int64_t at = 0;; ++at) {
    ScratchFolder folder;
    const std::string dir = folder.path("ckpt");
    for (int64_t step : {10, 20, 30}) save(dir, step, 1);
    FaultStorage storage;
    storage.fail_at = at;
    const std::vector<std::string> doomed{dir + "/step-10", dir + "/step-20"};
    testing::internal::CaptureStderr();
    bool failed = false;
    try {
      remove_checkpoints(storage, dir, doomed);
    } catch (const StorageError&) { failed = true; }
    const std::string said = testing::internal::GetCapturedStderr();
    if (storage.operations() <= at) break;
    const bool synced = storage.journal()[static_cast<size_t>(at)].find("sync") != std::string::npos;
    EXPECT_EQ(failed, synced) << storage.journal()[static_cast<size_t>(at)];
    EXPECT_EQ(said.find(" stays, and removing it is tried again at the next save: ") != std::string::npos,
              !synced)
        << said;
    EXPECT_EQ(load(dir), (Found{30, 1}));
    EXPECT_TRUE(synced || !fs::exists(doomed[0]) || !fs::exists(doomed[1]));
    save(dir, 40, 2, 1);
    EXPECT_EQ(names(dir), (std::vector<std::string>{".lock", "latest", "step-40"}))
        << storage.journal()[static_cast<size_t>(at)];
  }
}

}  // namespace
}  // namespace lockstep
