// Save plans and load plans: every box once, balanced, and read where it is needed.
#include <gtest/gtest.h>

#include <map>

#include "checkpoint/format/tiling.h"
#include "checkpoint/plan/blocks.h"
#include "checkpoint/plan/fit.h"
#include "checkpoint/plan/load_plan.h"
#include "checkpoint/plan/save_plan.h"
#include "core/base/error.h"
#include "tests/support/state_arrays.h"

namespace lockstep {

using namespace checkpoint;

namespace {

TEST(Blocks, FollowEachOtherAndStayBelowTheLimit) {
  for (Shape shape : {Shape{}, Shape{1}, Shape{7}, Shape{3, 5}, Shape{1, 9}, Shape{4, 1, 6}, Shape{2, 3, 4},
                      Shape{0, 3}, Shape{3, 0}})
    for (int64_t limit : {1, 2, 3, 5, 7, 100}) {
      Box box = whole(shape);
      for (auto& offset : box.offset) offset = 10;
      int64_t next = 0;
      for_each_block(box, limit, [&](const Box& block, int64_t at) {
        EXPECT_EQ(at, next);
        EXPECT_LE(numel(block), limit);
        EXPECT_EQ(contiguous_at(block, box), at);
        next += numel(block);
      });
      EXPECT_EQ(next, numel(box));
    }
}

TEST(Blocks, ContiguousOnlyWhereOneRun) {
  Box frame{{0, 0, 0}, {4, 5, 6}};
  EXPECT_EQ(contiguous_at({{1, 0, 0}, {2, 5, 6}}, frame), 30);
  EXPECT_EQ(contiguous_at({{1, 2, 0}, {1, 2, 6}}, frame), 42);
  EXPECT_EQ(contiguous_at({{1, 2, 3}, {1, 1, 2}}, frame), 45);
  EXPECT_EQ(contiguous_at({{1, 2, 0}, {2, 2, 6}}, frame), -1);
  EXPECT_EQ(contiguous_at({{1, 2, 3}, {1, 2, 3}}, frame), -1);
  EXPECT_EQ(contiguous_at({{3, 0, 0}, {2, 5, 6}}, frame), -1);
  EXPECT_EQ(contiguous_at({{}, {}}, {{}, {}}), 0);
}

// The boxes of all ranks tile each tensor; each is held by its writer.
void check_plan(const SavePlan& plan, const Mesh& mesh, const std::string& what) {
  std::vector<std::vector<Box>> boxes(plan.tensors.size());
  for (int64_t rank = 0; rank < mesh.size(); ++rank)
    for (const auto& chunk : plan.by_rank[static_cast<size_t>(rank)]) {
      const TensorSpec& spec = plan.tensors[chunk.tensor];
      boxes[chunk.tensor].push_back(chunk.box);
      bool held = numel(chunk.box) == 0;
      for (const auto& piece : local_pieces(spec.layout, mesh, spec.shape, mesh.coordinate(rank)))
        held = held || piece.global == chunk.box;
      EXPECT_TRUE(held) << what << ": rank " << rank << " writes " << text(chunk.box) << " of " << spec.fqn;
    }
  for (size_t t = 0; t < boxes.size(); ++t) {
    check_tiling(plan.tensors[t].shape, boxes[t], what + ": " + plan.tensors[t].fqn);
    EXPECT_FALSE(boxes[t].empty()) << what;
  }
}

TEST(SavePlan, EveryBoxOnceOnRandomLayouts) {
  std::mt19937 random(5);
  std::vector<Mesh> meshes{{{1}, {"tp"}},
                           {{3}, {"dp_shard"}},
                           {{7}, {"dp_replicate"}},
                           {{2, 3}, {"dp_replicate", "dp_shard"}},
                           {{2, 2, 2}, {"dp_replicate", "dp_shard", "tp"}},
                           {{8}, {"dp_shard"}}};
  for (int trial = 0; trial < 200; ++trial) {
    const Mesh& mesh = meshes[random() % meshes.size()];
    std::vector<TensorSpec> specs;
    for (const auto& spec : awkward_specs())
      specs.push_back({spec.fqn, spec.dtype, spec.shape, random_layout(spec.shape, mesh, random)});
    auto plan = plan_save(specs, mesh);
    check_plan(plan, mesh, str("trial ", trial, " on ", text(mesh)));
    EXPECT_EQ(plan_save(specs, mesh).fingerprint, plan.fingerprint);
    specs[0].dtype = DType::i64;
    EXPECT_NE(plan_save(specs, mesh).fingerprint, plan.fingerprint);
  }
}

// 100 replicated tensors of one size over 4 ranks: 25 each. With one rank loaded by a shard that only it
// holds, the others take more.
TEST(SavePlan, ReplicasAreBalancedByBytes) {
  Mesh mesh{{4}, {"dp_replicate"}};
  std::vector<TensorSpec> specs;
  for (int i = 0; i < 100; ++i) specs.push_back({str("t", i), DType::f32, {8, 8}, {}});
  auto plan = plan_save(specs, mesh);
  for (int64_t rank = 0; rank < 4; ++rank) EXPECT_EQ(plan.bytes_of(rank), 25 * 256);
  Layout sharded;
  sharded.set(0, Shard(0));
  specs.push_back({"tall", DType::f32, {1, 640}, sharded});  // one row: rank 0 holds all of it, 2560 bytes
  plan = plan_save(specs, mesh);
  EXPECT_EQ(plan.bytes_of(0), 2560 + 18 * 256);
  for (int64_t rank = 1; rank < 4; ++rank) EXPECT_EQ(plan.bytes_of(rank), rank == 1 ? 28 * 256 : 27 * 256);
  // Unequal sizes: no rank is further above the mean than the largest tensor.
  specs.clear();
  std::mt19937 random(3);
  int64_t total = 0, largest = 0;
  for (int i = 0; i < 57; ++i) {
    int64_t n = 1 + static_cast<int64_t>(random() % 5000);
    specs.push_back({str("u", i), DType::f32, {n}, {}});
    total += 4 * n;
    largest = std::max(largest, 4 * n);
  }
  plan = plan_save(specs, mesh);
  for (int64_t rank = 0; rank < 4; ++rank) EXPECT_LE(plan.bytes_of(rank), total / 4 + largest / 8);
}

TEST(SavePlan, ChunksAreAlignedAndNamed) {
  std::vector<TensorSpec> specs{{"a", DType::u8, {3}, {}},
                                {"b", DType::f64, {2}, {}},
                                {"c", DType::bf16, {5}, {}},
                                {"d", DType::f32, {1}, {}}};
  auto plan = plan_save(specs, Mesh{});
  std::string order;
  for (const auto& chunk : plan.by_rank[0]) order += plan.tensors[chunk.tensor].fqn;
  EXPECT_EQ(order, "bdca");
  EXPECT_EQ(chunk_name("w", {4, 8}, {{0, 0}, {4, 8}}), "w");
  EXPECT_EQ(chunk_name("w", {4, 8}, {{2, 0}, {2, 8}}), "w[2:4,0:8]");
  EXPECT_EQ(chunk_name("s", {}, {{}, {}}), "s");
  EXPECT_EQ(shard_name(3), "rank-3.safetensors");
}

TEST(SavePlan, OnlyStateHasAPlan) {
  Layout partial;
  partial.set(0, Partial());
  EXPECT_THROW(plan_save({{"g", DType::f32, {4}, partial}}, Mesh{}), InternalError);
  EXPECT_THROW(plan_save({{"w", DType::f32, {4}, {}}, {"w", DType::f32, {4}, {}}}, Mesh{}), InternalError);
}

// A rank reads only the chunks that share elements with its pieces, each once, in file order.
TEST(LoadPlan, ReadsWhatIsNeeded) {
  Manifest manifest;
  TensorRecord w{"w", DType::f32, {8, 4}, {}};
  for (int64_t r = 0; r < 4; ++r)
    w.chunks.push_back({str("rank-", 3 - r, ".safetensors"), 64, 32, {{2 * r, 0}, {2, 4}}, 0});
  manifest.tensors = {w};
  Mesh mesh{{2}, {"tp"}};
  Layout rows, grouped;
  rows.set(0, Shard(0));
  grouped.set(0, Shard(0, 2));
  Array first = make_array("w", DType::f32, {8, 4}, rows, mesh, 0),
        split = make_array("w", DType::f32, {8, 4}, grouped, mesh, 1);
  auto plan = plan_load(manifest, {&first});
  ASSERT_EQ(plan.size(), 2u);
  EXPECT_EQ(plan[0].chunk->file, "rank-2.safetensors");
  EXPECT_EQ(plan[1].chunk->file, "rank-3.safetensors");
  plan = plan_load(manifest, {&split});  // rows 2..4 and 6..8
  ASSERT_EQ(plan.size(), 2u);
  EXPECT_EQ(plan[0].chunk->box.offset[0], 6);
  EXPECT_EQ(plan[0].targets.size(), 1u);
  EXPECT_EQ(plan[0].targets[0].piece, 1u);
  Array other = make_array("v", DType::f32, {8, 4}, rows, mesh, 0);
  EXPECT_TRUE(plan_load(manifest, {&other}).empty());
}

TEST(Fit, Widening) {
  EXPECT_TRUE(widens(DType::bf16, DType::f32));
  EXPECT_TRUE(widens(DType::f16, DType::f64));
  EXPECT_FALSE(widens(DType::f32, DType::bf16));
  EXPECT_FALSE(widens(DType::f16, DType::bf16));
  EXPECT_FALSE(widens(DType::i32, DType::f64));
  EXPECT_EQ(misfit_text({{"a", DType::f32, {2}}}, "x", {{"a", DType::f32, {2}}}, "y", false), "");
  std::vector<NamedType> many;
  for (int i = 10; i < 24; ++i) many.push_back({str("w", i), DType::f32, {i}});
  const std::string far = misfit_text({{"z", DType::f32, {1}}}, "x", many, "y", false);
  EXPECT_EQ(
      far.rfind("x does not fit y: 14 missing, 1 extra, 0 of another shape or dtype\n  missing: w10 f32[10]",
                0),
      0u)
      << far;
  EXPECT_NE(far.find("  missing: w21 f32[21]"), std::string::npos) << far;
  EXPECT_EQ(far.find("w22 f32"), std::string::npos) << far;
  EXPECT_NE(far.find("\n  missing: and 2 more\n  extra: z f32[1]"), std::string::npos) << far;
}

}  // namespace
}  // namespace lockstep
