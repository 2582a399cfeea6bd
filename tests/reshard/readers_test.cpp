// Readers of a checkpoint folder that holds something else than it should, or that a run changes under them.
#include <sys/stat.h>

#include <atomic>
#include <thread>

#include "checkpoint/format/damage.h"
#include "tests/reshard/folder_case.h"

namespace lockstep {

using namespace checkpoint;

namespace {

// `latest` is a hint: whatever stands in its place, readers go on, and the next save says what it cannot
// write.
TEST(Readers, LatestThatIsNoneNeverStopsAReader) {
  for (const char* what : {"folder", "fifo", "loop", "garbage", "large"}) {
    ScratchFolder folder;
    std::string dir = folder.path("ckpt"), latest = dir + "/latest", kind = what;
    save(dir, 10, 1);
    save(dir, 20, 2);
    fs::remove(latest);
    if (kind == "folder") fs::create_directories(latest + "/x");
    if (kind == "fifo") { ASSERT_EQ(::mkfifo(latest.c_str(), 0600), 0); }
    if (kind == "loop") fs::create_symlink("latest", latest);
    if (kind == "garbage") folder.write("ckpt/latest", "../../etc/passwd\n");
    if (kind == "large") folder.write("ckpt/latest", std::string(10 << 20, 'x'));
    testing::internal::CaptureStderr();
    EXPECT_EQ(load(dir), (Found{20, 2})) << kind;
    std::string said = testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find(latest), std::string::npos) << kind << ": " << said;
    EXPECT_NE(said.find("the newest whole checkpoint is taken"), std::string::npos) << kind << ": " << said;
    EXPECT_EQ(list_checkpoints(dir).size(), 2u) << kind;
    testing::internal::CaptureStderr();
    save(dir, 30, 3, 1);
    said = testing::internal::GetCapturedStderr();
    EXPECT_EQ(load(dir), (Found{30, 3})) << kind;
    EXPECT_FALSE(fs::exists(dir + "/step-10")) << kind << ": old ones are removed all the same";
    EXPECT_EQ(
        kind == "folder",
        said.find("step-30 is saved, but tidying up after it failed: cannot rename") != std::string::npos)
        << kind << ": " << said;
  }
}

// A folder of another step under this name is not this step.
TEST(Readers, AStepUnderAnotherNameIsSaid) {
  ScratchFolder folder;
  std::string dir = folder.path("ckpt");
  save(dir, 10, 1);
  save(dir, 20, 2);
  fs::remove_all(dir + "/step-20");
  fs::copy(dir + "/step-10", dir + "/step-20", fs::copy_options::recursive);
  const std::string words = dir + "/step-20/manifest.json is of step 10, but the folder is named step-20";
  EXPECT_EQ(verify_checkpoint(dir + "/step-20"), std::vector<std::string>{words});
  testing::internal::CaptureStderr();
  EXPECT_EQ(load(dir), (Found{10, 1}));
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("step-20 is damaged: " + words), std::string::npos) << said;
  fs::copy(dir + "/step-10", dir + "/best",
           fs::copy_options::recursive);  // a name of the user's own says nothing of a step
  EXPECT_TRUE(verify_checkpoint(dir + "/best").empty());
}

// A run that keeps one checkpoint removes it under its readers: they take the next, and never call what went
// damaged.
TEST(Readers, ReadersBesideASavingRun) {
  ScratchFolder folder;
  std::string dir = folder.path("ckpt");
  save(dir, 1, 1, 1);
  std::atomic<bool> done{false};
  std::thread run([&] {
    for (int64_t step = 2; !done; ++step) save(dir, step, static_cast<uint64_t>(step), 1);
  });
  int lists = 0, whole = 0, vanished = 0;
  for (int i = 0; i < 200; ++i) {
    auto rows = list_checkpoints(dir);
    EXPECT_FALSE(rows.empty()) << i;
    for (const auto& row : rows) EXPECT_EQ(row.problem, "") << i;
    ++lists;
    try {
      if (rows.empty()) continue;
      auto problems = verify_checkpoint(rows.back().path);
      EXPECT_EQ(problems, std::vector<std::string>{}) << i;
      ++whole;
    } catch (const VanishedError&) { ++vanished; }
  }
  done = true;
  run.join();
  EXPECT_EQ(lists, 200);
  EXPECT_GT(whole, 0);
  RecordProperty("vanished", vanished);
}

// What is held stays readable after it was removed.
TEST(Readers, AHeldCheckpointOutlivesItsFolder) {
  ScratchFolder folder;
  std::string dir = folder.path("ckpt"), step = dir + "/step-10";
  save(dir, 10, 1);
  auto held = hold_checkpoint(step);
  const Manifest manifest = read_manifest(step);
  fs::remove_all(step);
  EXPECT_EQ(read_manifest(step, *held).state_hash, manifest.state_hash);
  for (const auto& tensor : manifest.tensors)
    EXPECT_EQ(difference(read_tensor(step, tensor.fqn, *held), 1), "") << tensor.fqn;
  EXPECT_THROW(hold_checkpoint(step), VanishedError);
  EXPECT_THROW(verify_checkpoint(step), VanishedError);
}

}  // namespace
}  // namespace lockstep
