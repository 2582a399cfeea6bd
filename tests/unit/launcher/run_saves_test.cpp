// The saves of a run: one beside the training at a time, agreed on by votes, waited for where it must be.
#include "launcher/loop/saves/run_saves.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <thread>

#include "distributed/local/local_world.h"
#include "tests/support/fault_storage.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/state_arrays.h"

namespace lockstep {

using namespace checkpoint;
using launcher::RunSaves;
using launcher::SaveOrder;

namespace {

// A disk that takes its time to sync a file.
class SlowStorage : public FaultStorage {
 public:
  explicit SlowStorage(int ms) : ms_(ms) {}
  void sync_folder(const std::string& folder) override {
    std::this_thread::sleep_for(std::chrono::milliseconds(ms_));
    FaultStorage::sync_folder(folder);
  }

 private:
  int ms_;
};

const std::vector<StateSpec> kSpecs{{"w", DType::f32, {6, 3}}, {"b", DType::bf16, {3}}};
bool there(const std::string& dir, int64_t step) {
  return std::filesystem::exists(str(dir, "/step-", step, "/manifest.json"));
}

struct OneRank {
  explicit OneRank(launcher::CheckpointConfig policy, int sync_ms = 0, bool room = true)
      : storage(sync_ms),
        snapshots(std::make_shared<SnapshotRoom>()),
        saves(policy, live, snapshots, storage) {
    snapshots->has_room = [room](int64_t) { return room; };
  }
  void save(int64_t step, bool last = false) {
    saves.save({dir, 3, last, false, [this, step] { saved.push_back(step); }}, {step, nullptr, "", nullptr},
               readable(state));
  }
  ScratchFolder folder;
  std::string dir = folder.path("ckpt");
  LiveMesh live = solo_mesh();
  std::vector<Array> state = solo_state(kSpecs, 1);
  std::vector<int64_t> saved;
  SlowStorage storage;
  std::shared_ptr<SnapshotRoom> snapshots;
  RunSaves saves;
};

TEST(RunSaves, TheSecondOneWaitsAndSaysSo) {
  OneRank run({}, 700);
  run.save(10);
  EXPECT_TRUE(run.saves.in_flight());
  EXPECT_FALSE(there(run.dir, 10));
  ::testing::internal::CaptureStderr();
  run.save(20);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("waiting for the save of step 10, which is still being written"), std::string::npos)
      << said;
  EXPECT_TRUE(there(run.dir, 10));
  EXPECT_FALSE(there(run.dir, 20));
  EXPECT_EQ(run.saved, std::vector<int64_t>{10});
  run.save(30, true);
  EXPECT_FALSE(run.saves.in_flight());
  EXPECT_TRUE(there(run.dir, 30));
  EXPECT_EQ(run.saved, (std::vector<int64_t>{10, 20, 30}));
}

TEST(RunSaves, VotesOfAllRanksAreToldApart) {
  using namespace launcher;
  const int64_t votes = 3 + 32767 * kRegroup + 5 * kReady + 32767 * kReadyInMemory;
  EXPECT_EQ(RunSaves::stops(votes), 3);
  EXPECT_EQ(RunSaves::regroups(votes), 32767);
  EXPECT_EQ(RunSaves::ready(votes), 5);
  EXPECT_EQ(RunSaves::ready_in_memory(votes), 32767);
}

TEST(RunSaves, GoesOnWhenAllRanksAreDone) {
  ScratchFolder folder;
  FaultStorage storage;
  distributed::local_mesh(3, Mesh{{3}, {"dp_replicate"}}, [&](LiveMesh& live) {
    auto state = make_state(kSpecs, live.words, live.rank, [](const StateSpec&) { return Layout{}; });
    for (auto& array : state) fill(array, 1);
    RunSaves saves({}, live, std::make_shared<SnapshotRoom>(), storage);
    int64_t saved = 0, steps = 0, stop_votes = 0;
    saves.save({folder.path("ckpt"), 1, false, false, [&] { saved = 7; }}, {7, nullptr, "", nullptr},
               readable(state));
    for (; saves.in_flight(); ++steps) {  // a step: the arrays change, votes are summed
      for (auto& array : state) fill(array, 2);
      int64_t vote = (live.rank == 2 ? 1 : 0) + saves.vote();
      all_reduce(*live.world, {&vote, &vote, 1, DType::i64, ReduceOp::sum}, "votes");
      stop_votes += RunSaves::stops(vote);
      saves.heard(vote);
    }
    EXPECT_EQ(saved, 7);
    EXPECT_GE(steps, 3);  // prepare, write, commit
    EXPECT_EQ(stop_votes, steps);
    EXPECT_EQ(saves.vote(), 0);
    auto loaded = make_state(kSpecs, live.words, live.rank, [](const StateSpec&) { return Layout{}; });
    EXPECT_EQ(load_latest(folder.path("ckpt"), writable(loaded), live)->step, 7);
    EXPECT_EQ(difference(loaded, 1), "");
  });
}

TEST(RunSaves, WaitsWithoutMemoryOrWithoutTheKey) {
  OneRank without({}, 0, false);
  ::testing::internal::CaptureStderr();
  without.save(10), without.save(20);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_FALSE(without.saves.in_flight());
  EXPECT_EQ(without.saved, (std::vector<int64_t>{10, 20}));
  const std::string words =
      "of the state and is written beside the training (checkpoint.async), but a rank has no memory for "
      "that: "
      "the run waits for its saves";
  ASSERT_NE(said.find(words), std::string::npos) << said;
  EXPECT_EQ(said.find(words, said.find(words) + 1), std::string::npos) << "told once";
  launcher::CheckpointConfig waits;
  waits.async = false;
  OneRank run(waits);
  run.save(10);
  EXPECT_FALSE(run.saves.in_flight());
  EXPECT_TRUE(there(run.dir, 10));
}

TEST(RunSaves, WhatTheDiskDoesNotTakeIsTriedAgainOrTold) {
  launcher::CheckpointConfig policy;
  policy.retries = 1;
  OneRank passes(policy);
  passes.storage.fail_at = 3, passes.storage.fail_code = ENOSPC;
  passes.save(10);
  for (auto& array : passes.state) fill(array, 2);
  ::testing::internal::CaptureStderr();
  passes.saves.finish();
  std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("; tried again in 1 s (retry 1 of 1)"), std::string::npos) << said;
  EXPECT_NE(said.find("the checkpoint of step 10 is saved now (retry 1)"), std::string::npos) << said;
  auto loaded = solo_state(kSpecs, 3);
  EXPECT_EQ(load_latest(passes.dir, writable(loaded), passes.live)->step, 10);
  EXPECT_EQ(difference(loaded, 1), "");

  policy.retries = 0;
  OneRank stops(policy);
  stops.storage.capacity = 40;
  stops.save(10);
  EXPECT_THROW(stops.saves.finish(), NotSaved);
  EXPECT_FALSE(stops.saves.in_flight());
  policy.on_failure = "continue";
  OneRank goes_on(policy);
  goes_on.storage.capacity = 40;
  goes_on.save(10);
  ::testing::internal::CaptureStderr();
  goes_on.saves.finish();
  said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("the run goes on WITHOUT this checkpoint"), std::string::npos) << said;
  EXPECT_EQ(goes_on.saved, std::vector<int64_t>{});
  EXPECT_THROW(goes_on.save(20, true), NotSaved);  // the last one must go well
}

}  // namespace
}  // namespace lockstep
