// Saves beside training: the bytes of a save that is waited for, of the moment at which they began.
#include "checkpoint/save_in_flight.h"

#include <cerrno>
#include <limits>
#include <map>

#include "tests/conformance/far_device.h"
#include "tests/reshard/folder_case.h"
#include "tests/support/fault_storage.h"
#include "tests/support/save_beside.h"

namespace lockstep {

using namespace checkpoint;

namespace {

// Each file below a folder, by its path there.
std::map<std::string, std::string> bytes_of(const std::string& folder) {
  std::map<std::string, std::string> out;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file() && entry.path().filename() != ".lock")
      out[fs::relative(entry.path(), folder)] = text_of(entry.path());
  return out;
}

// A state of awkward shapes, laid out at random, the same on all ranks.
std::vector<Array> awkward_state(const LiveMesh& live, uint64_t salt, uint32_t seed) {
  std::mt19937 random(seed);
  auto state = make_state(awkward_specs(), live.words, live.rank, [&](const StateSpec& spec) {
    return random_layout(spec.shape, live.words, random);
  });
  for (auto& array : state) fill(array, salt);
  return state;
}

SaveInfo info(int64_t step) { return {step, {{"lr", 0.5}}, "cert", {{"best", 1.25}}}; }

TEST(SaveInFlight, TheBytesOfASaveThatIsWaitedFor) {
  for (const Mesh& mesh : {Mesh{{1}, {"dp_replicate"}}, Mesh{{3}, {"dp_shard"}},
                           Mesh{{2, 2}, {"dp_replicate", "dp_shard"}}, Mesh{{7}, {"dp_shard"}}})
    for (uint32_t seed : {1u, 2u}) {
      ScratchFolder folder;
      SavedInfo waited, beside;
      distributed::local_mesh(static_cast<int>(mesh.size()), mesh, [&](LiveMesh& live) {
        auto state = awkward_state(live, 5, seed);
        const auto one = save_checkpoint(folder.path("waited"), info(20), readable(state), live, 2);
        const auto two = save_beside(folder.path("beside"), info(20), state, live, 2, file_storage(), [&] {
          for (auto& array : state) fill(array, 6);
        });
        EXPECT_EQ(difference(state, 6), "");
        if (live.rank == 0) waited = one, beside = two;
      });
      EXPECT_EQ(bytes_of(folder.path("beside")), bytes_of(folder.path("waited"))) << text(mesh);
      EXPECT_EQ(beside.state_hash, waited.state_hash);
      EXPECT_EQ(beside.bytes, waited.bytes);
      EXPECT_EQ(beside.path, folder.path("beside/step-20"));
      EXPECT_EQ(verify_checkpoint(beside.path), std::vector<std::string>{});
    }
}

TEST(SaveInFlight, RoomIsKeptAndItsLackIsWaitedOnAllRanks) {
  ScratchFolder folder;
  distributed::local_mesh(3, Mesh{{3}, {"dp_shard"}}, [&](LiveMesh& live) {
    auto state = awkward_state(live, 1, 3);
    auto room = std::make_shared<SnapshotRoom>();
    int asked = 0;
    room->has_room = [&](int64_t bytes) { return ++asked, bytes > 0; };
    for (int64_t step : {1, 2, 3})
      save_beside(folder.path("ckpt"), info(step), state, live, 0, file_storage(), [] {}, room);
    EXPECT_EQ(asked, 1);
    auto other = std::make_shared<SnapshotRoom>();
    other->has_room = [&](int64_t) { return live.rank != 1; };
    SaveInFlight save(folder.path("ckpt"), info(4), readable(state), live, 0, file_storage(), other);
    EXPECT_FALSE(save.beside());
    EXPECT_GT(save.snapshot_bytes(), 0);
    while (!save.advance()) {}
  });
  EXPECT_EQ(names(folder.path("ckpt")),
            (std::vector<std::string>{".lock", "latest", "step-1", "step-2", "step-3", "step-4"}));
}

// The state of the moment is saved by a later try, too; nothing of the first one is left.
TEST(SaveInFlight, IsTriedAgainFromItsSnapshot) {
  for (int ranks : {1, 2}) {
    ScratchFolder folder;
    FaultStorage storage;
    storage.fail_at = 4 + ranks, storage.fail_code = ENOSPC;
    distributed::local_mesh(ranks, Mesh{{ranks}, {"dp_shard"}}, [&](LiveMesh& live) {
      auto state = awkward_state(live, 8, 1);
      SaveInFlight save(folder.path("ckpt"), info(20), readable(state), live, 2, storage,
                        std::make_shared<SnapshotRoom>());
      for (auto& array : state) fill(array, 9);
      std::string failed;
      for (bool there = false; !there;) try {
          there = save.advance();
        } catch (const NotSaved& error) {
          failed = error.what();
          save.again(0.1);
        }
      EXPECT_NE(failed.find("checkpoint of step 20 was not saved (older ones are untouched): "),
                std::string::npos)
          << failed;
      auto loaded = awkward_state(live, 1, 1);
      EXPECT_EQ(load_latest(folder.path("ckpt"), writable(loaded), live)->step, 20);
      EXPECT_EQ(difference(loaded, 8), "");
    });
    EXPECT_EQ(names(folder.path("ckpt")), (std::vector<std::string>{".lock", "latest", "step-20"}));
  }
}

TEST(SaveInFlight, WhatIsThereWithTheSameBitsIsKept) {
  ScratchFolder folder;
  distributed::local_mesh(2, Mesh{{2}, {"dp_shard"}}, [&](LiveMesh& live) {
    auto state = awkward_state(live, 8, 1);
    save_checkpoint(folder.path("ckpt"), info(20), readable(state), live, 2);
    auto change = [&] { fill(state[2], 9); };
    EXPECT_TRUE(save_beside(folder.path("ckpt"), info(20), state, live, 2, file_storage(), change).kept);
    EXPECT_FALSE(save_beside(folder.path("ckpt"), info(20), state, live, 2, file_storage(), change).kept);
  });
  EXPECT_EQ(verify_checkpoint(folder.path("ckpt/step-20")), std::vector<std::string>{});
  EXPECT_EQ(names(folder.path("ckpt")), (std::vector<std::string>{".lock", "latest", "step-20"}));
}

// The state of a device that the host does not address: what it holds now is the truth, the host's copy is
// old.
class OnFarDevice : public ::testing::Test {
 protected:
  void train(std::vector<Array>& state, uint64_t salt) {
    for (auto& array : state) {
      fill(array, salt);
      array.host_wrote();
      array.on(device_);
      array.device_wrote(device_);
      std::fill_n(array.data.data(), array.data.bytes(), std::byte{0x5a});
    }
  }
  std::shared_ptr<SnapshotRoom> room(std::vector<Array>& state) {
    auto out = std::make_shared<SnapshotRoom>();
    out->snapshot = Snapshot({&device_, [&](const Array& array) -> const std::byte* {
                                for (auto& one : state)
                                  if (&one == &array) return one.on(device_);
                                return nullptr;
                              }});
    return out;
  }
  conformance::FarDevice device_;
  ScratchFolder folder_;
};

TEST_F(OnFarDevice, ItsCopyStreamsThroughBlocks) {
  const std::vector<StateSpec> specs{{"large", DType::f32, {3, 1 << 20}}, {"w", DType::f32, {6, 3}}};
  for (const auto& layout : {Layout{}, [] {
                               Layout l;
                               l.set(0, Shard(1));
                               return l;
                             }()}) {
    const std::string at = str(layout.splits.size());
    distributed::local_mesh(1, Mesh{{1}, {"dp_shard"}}, [&](LiveMesh& live) {
      auto state = make_state(specs, live.words, live.rank, [&](const StateSpec&) { return layout; });
      for (auto& array : state) fill(array, 5);
      save_checkpoint(folder_.path("waited" + at), info(20), readable(state), live, 2);
      train(state, 5);
      save_beside(
          folder_.path("beside" + at), info(20), state, live, 2, file_storage(), [&] { train(state, 6); },
          room(state));
    });
    EXPECT_EQ(bytes_of(folder_.path("beside" + at)), bytes_of(folder_.path("waited" + at)));
  }
}

// What lives on a device is read straight into its memory, on any layout; the host's copy is not touched.
TEST_F(OnFarDevice, ACheckpointIsLoadedThere) {
  const std::vector<StateSpec> specs{
      {"large", DType::f32, {3, 1 << 20}}, {"w", DType::bf16, {6, 3}}, {"none", DType::f32, {0, 2}}};
  auto layout = [](int dim) {
    return [dim](const StateSpec& spec) {
      Layout l;
      if (spec.fqn != "none") l.set(0, Shard(dim));
      return l;
    };
  };
  std::string hash;
  distributed::local_mesh(2, Mesh{{2}, {"dp_shard"}}, [&](LiveMesh& live) {
    auto state = make_state(specs, live.words, live.rank, layout(0));
    for (auto& array : state) fill(array, 5);
    const SavedInfo saved = save_checkpoint(folder_.path("ckpt"), info(20), readable(state), live, 2);
    if (live.rank == 0) hash = saved.state_hash;
  });
  for (int dim : {0, 1})
    distributed::local_mesh(2, Mesh{{2}, {"dp_shard"}}, [&](LiveMesh& live) {
      auto state = make_state(specs, live.words, live.rank, layout(dim));
      train(state, 6);
      EXPECT_EQ(load_checkpoint(folder_.path("ckpt/step-20"), writable(state), live).state_hash, hash);
      for (auto& array : state) {
        if (array.local_bytes() > 0) EXPECT_EQ(array.data.data()[0], std::byte{0x5a}) << array.fqn;
        array.fetch();
      }
      EXPECT_EQ(difference(state, 5), "") << "split along dim " << dim;
    });
}

TEST_F(OnFarDevice, WhatIsNotFiniteIsFoundOnTheWay) {
  distributed::local_mesh(2, Mesh{{2}, {"dp_shard"}}, [&](LiveMesh& live) {
    auto state = make_state(kSpecs, live.words, live.rank, [](const StateSpec&) {
      Layout l;
      l.set(0, Shard(0));
      return l;
    });
    for (auto& array : state) fill(array, 1);
    save_checkpoint(folder_.path("ckpt"), info(10), readable(state), live, 2);
    if (live.rank == 1) state[0].data.as<float>()[4] = -std::numeric_limits<float>::infinity();
    for (auto& array : state) array.host_wrote();
    std::string error;
    try {
      auto own = room(state);
      save_beside(folder_.path("ckpt"), info(20), state, live, 2, file_storage(), [] {}, own);
    } catch (const NonFiniteError& found) { error = found.what(); }
    EXPECT_EQ(error, str("the state after step 20 is not saved: w[4,1] is -inf; the checkpoints in ",
                         folder_.path("ckpt"), " are untouched"));
  });
  EXPECT_EQ(names(folder_.path("ckpt")), (std::vector<std::string>{".lock", "latest", "step-10"}));
}

// A rank that ends leaves a save in flight as a crash does: older checkpoints are whole.
TEST(SaveInFlight, OneThatIsDroppedLeavesTheOlderOnes) {
  ScratchFolder folder;
  auto state = solo_state(kSpecs, 1);
  save(folder.path("ckpt"), 10, 1);
  {
    const LiveMesh live = solo_mesh();
    SaveInFlight begun(folder.path("ckpt"), info(20), readable(state), live, 2, file_storage(),
                       std::make_shared<SnapshotRoom>());
  }
  {
    const LiveMesh live = solo_mesh();
    SaveInFlight writing(folder.path("ckpt"), info(20), readable(state), live, 2, file_storage(),
                         std::make_shared<SnapshotRoom>());
    EXPECT_FALSE(writing.advance());
  }
  EXPECT_EQ(load(folder.path("ckpt")), (Found{10, 1}));
  save(folder.path("ckpt"), 20, 2);
  EXPECT_EQ(names(folder.path("ckpt")), (std::vector<std::string>{".lock", "latest", "step-10", "step-20"}));
}

}  // namespace
}  // namespace lockstep
