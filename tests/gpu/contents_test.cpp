// What a GPU says of the state it holds: the host's hash, what is not finite, and a checkpoint that goes from
// its memory to a file and back.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <limits>
#include <random>

#include "checkpoint/checkpoint.h"
#include "checkpoint/save_in_flight.h"
#include "compiler/codegen/cuda/cuda_target.h"
#include "compiler/codegen/cuda/source/nvrtc.h"
#include "core/device/cuda/cuda_device.h"
#include "core/mesh/content.h"
#include "core/mesh/nonfinite.h"
#include "core/nn/init.h"
#include "tests/support/scratch_folder.h"

namespace lockstep {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

class contents : public testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    if (!cuda::available(&why) || !compiler::cuda::nvrtc_available(&why)) GTEST_SKIP() << why;
    gpu_ = &compiler::cuda_target(0).device();
    gpu_->enter();
    ASSERT_NE(gpu_->content_sums(), nullptr);
  }
  // Of a rank of a mesh that splits by rows, by columns, or not at all; with values of every bit pattern
  // where `wild`, else finite.
  std::vector<Array> state(int64_t rank, bool wild, unsigned seed = 1) {
    const Mesh mesh{{3}, {"tp"}};
    Layout rows, columns;
    rows.set(0, Shard(0)), columns.set(0, Shard(1));
    std::vector<Array> out;
    for (DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16, DType::i32, DType::i64, DType::u8}) {
      const std::string of(name(dtype));
      out.push_back(make_array("rows." + of, dtype, {7, 5}, rows, mesh, rank));
      out.push_back(make_array("columns." + of, dtype, {129, 1001}, columns, mesh, rank));
      out.push_back(make_array("whole." + of, dtype, {(1 << 17) + 3}, Layout{}, mesh, rank));
      out.push_back(make_array("one." + of, dtype, {}, Layout{}, mesh, rank));
    }
    out.push_back(make_array("large", DType::f32, {1201, 4099}, Layout{}, mesh, rank));
    std::mt19937 random(seed + static_cast<unsigned>(rank));
    for (Array& array : out) {
      for (int64_t i = 0; i < array.local_numel(); ++i)
        if (is_float(array.dtype) && !wild)
          set_double(array.dtype, array.data.data(), i, static_cast<double>(random() % 1000) / 8 - 60);
      if (wild || !is_float(array.dtype))
        for (size_t i = 0; i < array.local_bytes(); ++i)
          array.data.data()[i] = static_cast<std::byte>(random());
      array.host_wrote();
    }
    return out;
  }
  static std::vector<const Array*> all_of(const std::vector<Array>& arrays) {
    std::vector<const Array*> out;
    for (const Array& array : arrays) out.push_back(&array);
    return out;
  }
  // The host's copy is poisoned where it stays.
  void move(std::vector<Array>& arrays) {
    for (Array& array : arrays) {
      array.on(*gpu_);
      array.device_wrote(*gpu_);
      std::fill_n(array.data.data(), array.local_bytes(), std::byte{0x5a});
    }
  }
  Device* gpu_ = nullptr;
};

TEST_F(contents, HaveTheHostsSums) {
  for (int64_t rank : {0, 1, 2})
    for (bool wild : {false, true}) {
      auto arrays = state(rank, wild);
      const auto here = content_of(holdings(all_of(arrays)), {.hash = true, .finite = true});
      std::vector<StateHash> each;
      for (const Array& array : arrays) each.push_back(hash_elements(array));
      const auto bad = find_nonfinite(all_of(arrays), solo_mesh());
      EXPECT_EQ(bad.has_value(), wild);
      move(arrays);
      for (int turn = 0; turn < 2; ++turn) {
        const auto there = content_of(holdings(all_of(arrays)), {.hash = true, .finite = true});
        EXPECT_EQ(there.hash, here.hash);
        EXPECT_EQ(there.nonfinite, here.nonfinite);
        EXPECT_EQ(there.first, here.first);
      }
      for (size_t i = 0; i < arrays.size(); ++i)
        EXPECT_EQ(hash_elements(arrays[i]), each[i]) << arrays[i].fqn;
      const auto found = find_nonfinite(all_of(arrays), solo_mesh());
      ASSERT_EQ(found.has_value(), wild);
      if (wild) { EXPECT_EQ(found->text(), bad->text()); }
    }
}

TEST_F(contents, ACheckpointGoesFromItsMemoryAndBack) {
  using namespace checkpoint;
  ScratchFolder folder;
  const LiveMesh live = solo_mesh();
  auto solo = [&](unsigned seed) {
    auto arrays = state(0, false, seed);
    for (Array& array : arrays)
      array.layout = {}, array.shape = array.local_shape,
      array.pieces = {{whole(array.shape), whole(array.shape)}};
    return arrays;
  };
  const SaveInfo info{3, nullptr, "", nullptr};
  auto saved = solo(1);
  save_checkpoint(folder.path("host"), info, all_of(saved), live, 2);
  const std::string hash = state_hash(all_of(saved), live);
  move(saved);
  EXPECT_EQ(save_checkpoint(folder.path("waited"), info, all_of(saved), live, 2).state_hash, hash);
  auto room = std::make_shared<SnapshotRoom>();
  room->snapshot = Snapshot(
      {gpu_, [&](const Array& array) -> const std::byte* { return const_cast<Array&>(array).on(*gpu_); }});
  {
    SaveInFlight save(folder.path("beside"), info, all_of(saved), live, 2, file_storage(), room);
    for (Array& array : saved) gpu_->zero(array.on(*gpu_), array.local_bytes(), *gpu_->make_stream());
    while (!save.advance()) {}
    EXPECT_EQ(save.saved().state_hash, hash);
  }
  auto bytes = [&](const char* how) {
    return read_text(file_storage(), folder.path(str(how, "/step-3/rank-0.safetensors")), 1 << 30);
  };
  EXPECT_EQ(bytes("waited"), bytes("host"));
  EXPECT_EQ(bytes("beside"), bytes("host"));
  auto loaded = solo(2), want = solo(1);
  move(loaded);
  std::vector<Array*> into;
  for (Array& array : loaded) into.push_back(&array);
  EXPECT_EQ(load_checkpoint(folder.path("beside/step-3"), into, live).state_hash, hash);
  for (size_t i = 0; i < loaded.size(); ++i) {
    EXPECT_EQ(loaded[i].data.data()[0], std::byte{0x5a}) << "the host's copy was written";
    loaded[i].fetch();
    EXPECT_EQ(std::memcmp(loaded[i].data.data(), want[i].data.data(), want[i].local_bytes()), 0)
        << loaded[i].fqn;
  }
}

TEST_F(contents, WhatIsNotFiniteIsNotSaved) {
  using namespace checkpoint;
  ScratchFolder folder;
  const LiveMesh live = solo_mesh();
  Array array = make_array("w", DType::bf16, {300, 700}, Layout{}, live.words, 0);
  set_double(DType::bf16, array.data.data(), 299 * 700 + 3, -std::numeric_limits<double>::infinity());
  array.host_wrote();
  array.on(*gpu_);
  auto room = std::make_shared<SnapshotRoom>();
  room->snapshot = Snapshot({gpu_, [&](const Array&) -> const std::byte* { return array.on(*gpu_); }});
  std::string said;
  try {
    SaveInFlight save(folder.path("c"), {3, nullptr, "", nullptr}, {&array}, live, 2, file_storage(), room);
    while (!save.advance()) {}
  } catch (const NonFiniteError& error) { said = error.what(); }
  EXPECT_EQ(said, str("the state after step 3 is not saved: w[299,3] is -inf; the checkpoints in ",
                      folder.path("c"), " are untouched"));
}

// Random initial values are drawn in its memory, with the host's bits.
TEST_F(contents, DrawsTheHostsValues) {
  ASSERT_NE(gpu_->draws(), nullptr);
  const Mesh mesh{{3}, {"tp"}};
  Layout rows, columns;
  rows.set(0, Shard(0)), columns.set(0, Shard(1));
  for (int64_t rank : {0, 1, 2})
    for (const Init& init : {init::normal(0.02), init::normal(3, -0.25), init::kaiming_uniform()})
      for (const Layout& layout : {rows, columns, Layout{}}) {
        Array here = make_array("w", DType::f32, {1201, 4099}, layout, mesh, rank), there = here;
        there.data = Buffer(there.local_bytes());
        fill(here, init, 7);
        there.on(*gpu_);
        fill(there, init, 7);
        EXPECT_EQ(there.data.as<float>()[5], 0) << "it was made on the host";
        EXPECT_EQ(hash_elements(there), hash_elements(here)) << rank;
        there.fetch();
        EXPECT_EQ(std::memcmp(there.data.data(), here.data.data(), here.local_bytes()), 0) << rank;
      }
}

// No bound: speed is told, not tested.
TEST_F(contents, TellsItsSpeed) {
  for (int64_t gib : {1, 16}) {
    Array array = make_array("w", DType::f32, {gib << 28}, Layout{}, solo_mesh().words, 0);
    try {
      array.on(*gpu_);
    } catch (const UserError&) { break; }  // a GPU with less memory
    array.device_wrote(*gpu_);
    const Array* const all[] = {&array};
    content_of(holdings({all[0]}), {.hash = true, .finite = true});
    const double began = now();
    const Content content = content_of(holdings({all[0]}), {.hash = true, .finite = true});
    std::printf("hash and search of %d GiB: %.2f ms, %s\n", static_cast<int>(gib), (now() - began) * 1e3,
                content.hash.hex().c_str());
    const double drew = now();
    fill(array, init::normal(0.02), 7);
    std::printf("%d GiB of normal values: %.2f ms\n", static_cast<int>(gib), (now() - drew) * 1e3);
  }
}

}  // namespace
}  // namespace lockstep
