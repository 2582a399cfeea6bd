// A crash at every storage operation of a save: afterwards a load sees the old state or the new one,
// complete, and the next save goes well.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "checkpoint/checkpoint.h"
#include "checkpoint/save_in_flight.h"
#include "distributed/local/local_world.h"
#include "tests/support/fault_storage.h"
#include "tests/support/save_beside.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/state_arrays.h"

namespace lockstep {

using namespace checkpoint;

namespace {

namespace fs = std::filesystem;

const std::vector<StateSpec> kSpecs{{"w", DType::f32, {6, 3}},
                                    {"b", DType::f32, {3}},
                                    {"scale", DType::f32, {}},
                                    {"none", DType::f32, {0, 2}}};

// Blocks that are worth threads of their own, which write them in any order.
const std::vector<StateSpec> kLargeSpecs{{"w", DType::f32, {6, 30000}},
                                         {"b", DType::f32, {70001}},
                                         {"c", DType::bf16, {140000}},
                                         {"scale", DType::f32, {}}};
const std::vector<StateSpec>* specs = &kSpecs;  // of the test that runs

std::vector<Array> state_on(const LiveMesh& live) {
  return make_state(*specs, live.words, live.rank, [](const StateSpec& s) {
    Layout l;
    if (s.fqn == "w") l.set(0, Shard(0));
    return l;
  });
}
// Whether the run waits for its saves, or trains on: the arrays change while they are written.
enum class How { waits, beside };

void save(const std::string& dir, int ranks, int64_t step, uint64_t salt, int keep, Storage& storage,
          How how = How::waits) {
  distributed::local_mesh(ranks, Mesh{{ranks}, {"dp_shard"}}, [&](LiveMesh& live) {
    auto state = state_on(live);
    for (auto& array : state) fill(array, salt);
    const SaveInfo info{step, nullptr, "", nullptr};
    if (how == How::waits)
      save_checkpoint(dir, info, readable(state), live, keep, storage);
    else
      save_beside(dir, info, state, live, keep, storage, [&] { fill(state[0], salt + 7); });
  });
}
void save(const std::string& dir, int ranks, int64_t step, uint64_t salt, int keep) {
  FaultStorage storage;  // without a fault
  save(dir, ranks, step, salt, keep, storage);
}
// {step, salt} of what load_latest finds; the salt is the one of `salts` whose elements are all there, else
// -1.
std::pair<int64_t, int64_t> load(const std::string& dir, const std::vector<uint64_t>& salts) {
  LiveMesh live = solo_mesh();
  auto state = state_on(live);
  auto loaded = load_latest(dir, writable(state), live);
  if (!loaded) return {-1, -1};
  for (uint64_t salt : salts)
    if (difference(state, salt).empty()) return {loaded->step, static_cast<int64_t>(salt)};
  return {loaded->step, -1};
}
bool any_leftover(const std::string& dir) {
  for (const auto& entry : fs::directory_iterator(dir)) {
    auto name = entry.path().filename().string();
    if (name.size() > 4 && (name.substr(name.size() - 4) == ".tmp" || name.substr(name.size() - 4) == ".old"))
      return true;
  }
  return false;
}

struct Scenario {
  const char* what;
  std::vector<std::pair<int64_t, uint64_t>> before;  // {step, salt}, saved in this order
  int64_t step;                                      // then this is saved, with salt 100
  int keep;
};

void crash_everywhere(const Scenario& scenario, int ranks, How how);
void crash_everywhere(const Scenario& scenario, int ranks) {
  for (How how : {How::waits, How::beside}) crash_everywhere(scenario, ranks, how);
}
void crash_everywhere(const Scenario& scenario, int ranks, How how) {
  ScratchFolder folder;
  std::string base = folder.path("base");
  for (auto [step, salt] : scenario.before) save(base, ranks, step, salt, 0);
  std::vector<uint64_t> salts{100};
  for (auto [step, salt] : scenario.before) salts.push_back(salt);
  auto [old_step, old_salt] =
      scenario.before.empty() ? std::pair<int64_t, int64_t>{-1, -1} : load(base, salts);
  int64_t news = 0, olds = 0;
  for (bool power_cut : {false, true})
    for (int64_t at = 0;; ++at) {
      std::string dir = folder.path(str("run-", power_cut, "-", at));
      if (fs::exists(base)) fs::copy(base, dir, fs::copy_options::recursive);
      FaultStorage storage;
      storage.crash_at = at;
      bool crashed = false;
      try {
        save(dir, ranks, scenario.step, 100, scenario.keep, storage, how);
      } catch (const Crash&) { crashed = true; }
      if (power_cut) storage.lose_unsynced();
      std::string where =
          str(scenario.what, how == How::beside ? " beside training" : "", ", ", ranks, " ranks, ",
              power_cut ? "power cut" : "crash", " at operation ", at, ": ", storage.journal().back());
      auto found = fs::exists(dir) ? load(dir, salts) : std::pair<int64_t, int64_t>{-1, -1};
      bool is_new = found == std::pair<int64_t, int64_t>{scenario.step, 100},
           is_old = found == std::pair<int64_t, int64_t>{old_step, old_salt};
      EXPECT_TRUE(is_new || is_old) << where << ": found step " << found.first << " with salt "
                                    << found.second;
      (is_new ? news : olds) += 1;
      for (const auto& row : list_checkpoints(dir)) EXPECT_EQ(row.problem, "") << where;
      if (!crashed) {
        EXPECT_TRUE(is_new) << where << ": the save returned";
        EXPECT_EQ(at, storage.operations());
        break;
      }
      save(dir, ranks, scenario.step, 100, scenario.keep);
      EXPECT_EQ(load(dir, salts), (std::pair<int64_t, int64_t>{scenario.step, 100}))
          << where << ": then saved again";
      EXPECT_FALSE(any_leftover(dir)) << where << ": then saved again";
      fs::remove_all(dir);
    }
  EXPECT_GT(news, 2) << scenario.what;  // after the rename the new one counts
  EXPECT_GT(olds, 8) << scenario.what;  // before it the old one does
}

TEST(Crash, FirstSave) {
  for (int ranks : {1, 3}) crash_everywhere({"first save", {}, 10, 3}, ranks);
}
TEST(Crash, NextSave) {
  for (int ranks : {1, 2, 4}) crash_everywhere({"next save", {{10, 1}}, 20, 3}, ranks);
}
TEST(Crash, ReplacingAStepWithOtherBits) {
  for (int ranks : {1, 2}) crash_everywhere({"replacing", {{10, 1}, {20, 2}}, 20, 3}, ranks);
}
TEST(Crash, ReplacingTheOnlyStep) { crash_everywhere({"replacing the only one", {{20, 2}}, 20, 1}, 1); }
TEST(Crash, RemovingOldOnes) {
  for (int ranks : {1, 2}) crash_everywhere({"retention", {{10, 1}, {20, 2}, {30, 3}}, 40, 1}, ranks);
}

TEST(Crash, WhileSeveralThreadsWriteOneFile) {
  specs = &kLargeSpecs;
  for (int ranks : {1, 2}) crash_everywhere({"large blocks", {{10, 1}}, 20, 3}, ranks);
  specs = &kSpecs;
}

// Once the parent folder is synced the checkpoint is there: a power cut before `latest` is written takes
// nothing back.
TEST(Crash, CommittedBeforeLatestIsWritten) {
  ScratchFolder folder;
  FaultStorage rehearsal;
  save(folder.path("rehearsal"), 1, 20, 100, 3, rehearsal);
  const auto& journal = rehearsal.journal();
  auto found = std::find_if(journal.begin(), journal.end(), [](const std::string& line) {
    return line.find("create") == 0 && line.find("latest.lockstep-draft") != std::string::npos;
  });
  ASSERT_NE(found, journal.end());
  FaultStorage storage;
  storage.crash_at = found - journal.begin();
  std::string dir = folder.path("ckpt");
  EXPECT_THROW(save(dir, 1, 20, 100, 3, storage), Crash);
  storage.lose_unsynced();
  EXPECT_EQ(load(dir, {100}), (std::pair<int64_t, int64_t>{20, 100}));
}

// Every operation fails once with an error instead: the save throws NotSaved on all ranks or, past the
// commit, warns; the old one is whole.
void an_error_at_every_operation(How how) {
  for (int ranks : {1, 3})
    for (int code : {EIO, ENOSPC, EROFS}) {
      ScratchFolder folder;
      std::string base = folder.path("base");
      save(base, ranks, 10, 1, 0);
      for (int64_t at = 0;; ++at) {
        std::string dir = folder.path(str("run-", at));
        fs::copy(base, dir, fs::copy_options::recursive);
        FaultStorage storage;
        storage.fail_at = at;
        storage.fail_code = code;
        std::string error;
        try {
          save(dir, ranks, 20, 2, 1, storage, how);
        } catch (const NotSaved& e) { error = e.what(); }
        std::string where =
            str(ranks, " ranks, ", std::strerror(code), " at operation ", at, " of ", storage.operations());
        auto found = load(dir, {1, 2});
        if (error.empty())
          EXPECT_EQ(found, (std::pair<int64_t, int64_t>{20, 2})) << where;
        else {
          EXPECT_NE(error.find(std::strerror(code)), std::string::npos) << where << ": " << error;
          EXPECT_TRUE(found == (std::pair<int64_t, int64_t>{10, 1}) ||
                      found == (std::pair<int64_t, int64_t>{20, 2}))
              << where << ": found step " << found.first;
        }
        save(dir, ranks, 20, 2, 1);
        EXPECT_EQ(load(dir, {1, 2}), (std::pair<int64_t, int64_t>{20, 2})) << where;
        EXPECT_FALSE(any_leftover(dir)) << where;
        fs::remove_all(dir);
        if (at >= storage.operations()) break;
      }
    }
}
TEST(Crash, AnErrorAtEveryOperation) { an_error_at_every_operation(How::waits); }
TEST(Crash, AnErrorAtEveryOperationBesideTraining) { an_error_at_every_operation(How::beside); }

// The disk fills at byte k, for every k: the old checkpoint is whole, the unfinished one is gone, the message
// names the file.
void disk_full_at_every_byte(How how) {
  ScratchFolder folder;
  std::string dir = folder.path("ckpt");
  save(dir, 2, 10, 1, 0);
  int64_t needed = 0;
  for (const auto& entry : fs::recursive_directory_iterator(dir))
    if (entry.is_regular_file()) needed += static_cast<int64_t>(entry.file_size());
  int64_t failures = 0;
  for (int64_t k = 0; k < 2 * needed; k += k < 600 ? 37 : 113) {
    FaultStorage storage;
    storage.capacity = k;
    std::string error;
    try {
      save(dir, 2, 20, 2, 0, storage, how);
    } catch (const NotSaved& e) { error = e.what(); }
    if (error.empty()) {
      EXPECT_EQ(load(dir, {1, 2}), (std::pair<int64_t, int64_t>{20, 2})) << k;
      break;
    }
    ++failures;
    EXPECT_NE(error.find("step-20.tmp/"), std::string::npos) << error;
    EXPECT_NE(error.find("No space left on device at byte "), std::string::npos) << error;
    EXPECT_NE(error.find("checkpoint of step 20 was not saved"), std::string::npos) << error;
    EXPECT_EQ(load(dir, {1, 2}), (std::pair<int64_t, int64_t>{10, 1})) << k;
    EXPECT_FALSE(any_leftover(dir)) << k;
  }
  EXPECT_GT(failures, 10);
  EXPECT_EQ(load(dir, {1, 2}).first, 20);
}
TEST(Crash, DiskFullAtEveryByte) { disk_full_at_every_byte(How::waits); }
TEST(Crash, DiskFullAtEveryByteBesideTraining) { disk_full_at_every_byte(How::beside); }

}  // namespace
}  // namespace lockstep
