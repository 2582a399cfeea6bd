// Save on one mesh, load on another: every element and the state hash are the same.
#include <gtest/gtest.h>

#include <atomic>

#include "checkpoint/checkpoint.h"
#include "checkpoint/io/write_shard.h"
#include "distributed/local/local_world.h"
#include "tests/support/fault_storage.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/state_arrays.h"

namespace lockstep {

using namespace checkpoint;

namespace {

// Meshes of n ranks, of one, two and three dims.
std::vector<Mesh> meshes_of(int64_t n) {
  std::vector<Mesh> out{{{n}, {"dp_replicate"}}, {{n}, {"dp_shard"}}, {{n}, {"tp"}}};
  for (int64_t a = 2; a < n; ++a)
    if (n % a == 0) {
      out.push_back({{a, n / a}, {"dp_replicate", "dp_shard"}});
      out.push_back({{a, n / a}, {"dp_shard", "tp"}});
      out.push_back({{a, n / a}, {"dp_replicate", "tp"}});
    }
  if (n == 8) out.push_back({{2, 2, 2}, {"dp_replicate", "dp_shard", "tp"}});
  return out;
}

std::vector<Array> random_state(const std::vector<StateSpec>& specs, const Mesh& mesh, int64_t rank,
                                unsigned seed) {
  std::mt19937 random(seed);
  return make_state(specs, mesh, rank,
                    [&](const StateSpec& spec) { return random_layout(spec.shape, mesh, random); });
}

std::string save_on(const std::string& dir, const Mesh& mesh, const std::vector<StateSpec>& specs,
                    unsigned seed, uint64_t salt, int64_t step) {
  std::string hash;
  FaultStorage storage;  // without a fault
  distributed::local_mesh(static_cast<int>(mesh.size()), mesh, [&](LiveMesh& live) {
    auto state = random_state(specs, mesh, live.rank, seed);
    for (auto& array : state) fill(array, salt);
    SaveInfo info{step, {{"width", 64}}, "cert-1", {{"tokens", 12345}}};
    auto saved = save_checkpoint(dir, info, readable(state), live, 0, storage);
    if (live.rank == 0) hash = saved.state_hash;
  });
  return hash;
}

void load_on(const std::string& dir, const Mesh& mesh, const std::vector<StateSpec>& specs, unsigned seed,
             uint64_t salt, int64_t step, const std::string& hash, const std::string& what) {
  distributed::local_mesh(static_cast<int>(mesh.size()), mesh, [&](LiveMesh& live) {
    auto state = random_state(specs, mesh, live.rank, seed);
    auto loaded = load_latest(dir, writable(state), live);
    ASSERT_TRUE(loaded.has_value()) << what;
    EXPECT_EQ(loaded->step, step) << what;
    EXPECT_EQ(loaded->state_hash, hash) << what;
    EXPECT_EQ(loaded->config, Json({{"width", 64}})) << what;
    EXPECT_EQ(loaded->extra["tokens"], 12345) << what;
    EXPECT_EQ(loaded->certificate, "cert-1") << what;
    EXPECT_EQ(difference(state, salt), "") << what << " rank " << live.rank;
  });
}

// Every pair of rank counts from 1 to 8, each with random meshes and layouts on both sides.
TEST(Reshard, AnyRankCountToAnyOther) {
  std::mt19937 random(20);
  auto specs = awkward_specs();
  std::string one_rank_hash;
  {
    auto state = solo_state(specs, 7);
    one_rank_hash = state_hash(readable(state), solo_mesh());
  }
  for (int64_t from = 1; from <= 8; ++from) {
    auto choices = meshes_of(from);
    ScratchFolder folder;
    std::string dir = folder.path("ckpt");
    const Mesh& mesh = choices[random() % choices.size()];
    unsigned seed = random();
    std::string hash = save_on(dir, mesh, specs, seed, 7, 20);
    EXPECT_EQ(hash, one_rank_hash) << text(mesh);
    EXPECT_EQ(verify_checkpoint(dir + "/step-20"), std::vector<std::string>{}) << text(mesh);
    for (int64_t to = 1; to <= 8; ++to) {
      auto targets = meshes_of(to);
      const Mesh& target = targets[random() % targets.size()];
      unsigned target_seed = random();
      load_on(dir, target, specs, target_seed, 7, 20, hash,
              str(text(mesh), " seed ", seed, " -> ", text(target), " seed ", target_seed));
    }
  }
}

TEST(Reshard, EveryMeshOfSixAndEight) {
  std::mt19937 random(21);
  auto specs = awkward_specs();
  for (int64_t n : {6, 8})
    for (const Mesh& mesh : meshes_of(n)) {
      ScratchFolder folder;
      std::string dir = folder.path("ckpt");
      unsigned seed = random(), target_seed = random();
      std::string hash = save_on(dir, mesh, specs, seed, 9, 3);
      auto targets = meshes_of(1 + random() % 8);
      const Mesh& target = targets[random() % targets.size()];
      load_on(dir, target, specs, target_seed, 9, 3, hash,
              str(text(mesh), " seed ", seed, " -> ", text(target), " seed ", target_seed));
    }
}

// The named layouts of training: DDP, FSDP, TP with grouped q, k, v rows, and both.
TEST(Reshard, DataAndTensorParallelLayouts) {
  std::vector<StateSpec> specs{
      {"qkv", DType::f32, {24, 8}}, {"down", DType::f32, {8, 32}}, {"norm", DType::f32, {8}}};
  auto layout = [](const Mesh& mesh, const StateSpec& spec) {
    Layout out;
    if (int tp = mesh.find("tp"); tp >= 0 && spec.fqn != "norm")
      out.set(tp, spec.fqn == "qkv" ? Shard(0, 3) : Shard(1));
    if (int dp = mesh.find("dp_shard"); dp >= 0) out.set(dp, Shard(0));
    return out;
  };
  std::vector<Mesh> all{{{4}, {"dp_replicate"}}, {{4}, {"dp_shard"}},          {{3}, {"dp_shard"}},
                        {{2}, {"tp"}},           {{2, 2}, {"dp_shard", "tp"}}, {{2, 4}, {"dp_shard", "tp"}},
                        {{1}, {"dp_replicate"}}};
  for (const Mesh& from : all) {
    ScratchFolder folder;
    std::string dir = folder.path("ckpt");
    distributed::local_mesh(static_cast<int>(from.size()), from, [&](LiveMesh& live) {
      auto state = make_state(specs, from, live.rank, [&](const StateSpec& s) { return layout(from, s); });
      for (auto& array : state) fill(array, 1);
      save_checkpoint(dir, {1, nullptr, "", nullptr}, readable(state), live, 1);
    });
    for (const Mesh& to : all)
      distributed::local_mesh(static_cast<int>(to.size()), to, [&](LiveMesh& live) {
        auto state = make_state(specs, to, live.rank, [&](const StateSpec& s) { return layout(to, s); });
        load_checkpoint(dir + "/step-1", writable(state), live);
        EXPECT_EQ(difference(state, 1), "") << text(from) << " -> " << text(to);
      });
    Array qkv = read_tensor(dir + "/step-1", "qkv");
    EXPECT_EQ(difference(qkv, 1), "");
    EXPECT_EQ(qkv.local_shape, (Shape{24, 8}));
  }
}

// Tensors larger than the buffer, read row by row and column by column: no read passes the buffer's size.
TEST(Reshard, LargeTensorsStreamThroughABoundedBuffer) {
  std::vector<StateSpec> specs{{"wide", DType::f32, {3, (1 << 20) + 1}},
                               {"tall", DType::bf16, {(1 << 20) + 7, 3}}};
  Mesh three{{3}, {"dp_shard"}};
  ScratchFolder folder;
  std::string dir = folder.path("ckpt");
  distributed::local_mesh(3, three, [&](LiveMesh& live) {
    auto state = make_state(specs, three, live.rank, [&](const StateSpec&) {
      Layout l;
      l.set(0, Shard(1));
      return l;
    });
    for (auto& array : state) fill(array, 5);
    save_checkpoint(dir, {1, nullptr, "", nullptr}, readable(state), live, 1);
  });
  FaultStorage storage;
  for (int dim : {0, 1})
    distributed::local_mesh(2, Mesh{{2}, {"dp_shard"}}, [&](LiveMesh& live) {
      auto state = make_state(specs, live.words, live.rank, [&](const StateSpec&) {
        Layout l;
        l.set(0, Shard(dim));
        return l;
      });
      load_checkpoint(dir + "/step-1", writable(state), live, storage);
      EXPECT_EQ(difference(state, 5), "");
    });
  EXPECT_LE(storage.largest_read(), kBlockBytes);
  EXPECT_GT(storage.largest_read(), kBlockBytes / 2);
}

// An init file of one rank's making, loaded onto a split layout; bf16 widens to f32 exactly.
TEST(Reshard, SafetensorsOntoAnyLayout) {
  ScratchFolder folder;
  std::vector<StateSpec> stored{{"a", DType::bf16, {6, 4}}, {"b", DType::f32, {5}}},
      wanted{{"a", DType::f32, {6, 4}}, {"b", DType::f32, {5}}};
  auto state = solo_state(stored, 3);
  for (int64_t i = 0; i < 24; ++i)
    set_double(DType::bf16, state[0].data.data(), i, static_cast<double>(i) / 8 - 1);
  save_checkpoint(folder.path("ckpt"), {0, nullptr, "", nullptr}, readable(state), solo_mesh(), 1);
  std::string file = folder.path("ckpt/step-0/rank-0.safetensors");
  for (int n : {1, 2, 3, 7}) {
    Mesh mesh{{n}, {"dp_shard"}};
    distributed::local_mesh(n, mesh, [&](LiveMesh& live) {
      for (int dim : {0, 1}) {
        auto into = make_state(wanted, mesh, live.rank, [&](const StateSpec& s) {
          Layout l;
          l.set(0, Shard(s.shape.size() > 1 ? dim : 0));
          return l;
        });
        load_safetensors(file, writable(into), live);
        for_each_element(into[0], [&](int64_t local, int64_t global) {
          EXPECT_EQ(into[0].data.as<float>()[local], static_cast<float>(global) / 8 - 1);
        });
        EXPECT_EQ(difference(into[1], 3), "");
      }
    });
  }
}

}  // namespace
}  // namespace lockstep
