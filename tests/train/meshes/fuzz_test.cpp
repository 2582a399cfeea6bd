// Random small models on random meshes with random placements, against one rank: the same bits without tp,
// the dtype table with it.
#include <gtest/gtest.h>

#include <array>
#include <random>

#include "core/base/error.h"
#include "tests/support/tiny_run.h"

namespace lockstep::tests {
namespace {

class Fuzz : public testing::TestWithParam<unsigned> {};

TEST_P(Fuzz, RandomMeshesAndPlacementsAgreeWithOneRank) {
  std::mt19937 random(GetParam());
  auto pick = [&](std::initializer_list<int64_t> of) { return *(of.begin() + random() % of.size()); };
  for (int trial = 0; trial < 3; ++trial) {
    TinyRun run;
    run.model = random() % 2 ? "gpt" : "llama";
    run.heads = 4, run.kv_heads = pick({2, 4});
    run.width = pick({16, 24, 32});
    run.depth = pick({1, 2, 3});
    run.context = pick({4, 8, 12});
    run.vocab = pick({13, 29, 40});
    run.micro = pick({1, 2});
    const int64_t micro_batches = pick({1, 2, 3, 5, 6, 8});
    run.global = run.micro * micro_batches;
    run.steps = 2;
    run.mask_every = pick({0, 5});
    run.dropout = random() % 3 ? 0 : 0.1;
    run.clip = random() % 2 ? 1.0 : 0.0;
    const TinyResult one = train_tiny(run);

    const int64_t replicate = pick({1, 2, 3}), shard = pick({1, 2, 3}),
                  tp = run.model == "gpt" ? pick({1, 1, 2, 4}) : pick({1, 1, 2});
    std::vector<std::pair<int64_t, std::string>> dims{
        {replicate, "dp_replicate"}, {shard, "dp_shard"}, {tp, "tp"}};
    if (random() % 2) std::swap(dims[0], dims[1]);
    run.mesh = {{}, {}};
    for (const auto& [size, name] : dims)
      if (size > 1 || random() % 2) run.mesh.shape.push_back(size), run.mesh.dim_names.push_back(name);
    if (run.mesh.shape.empty()) run.mesh = {{1}, {"dp_shard"}};
    run.zero = static_cast<int>(pick({1, 2, 3}));
    run.options.bucket_bytes = pick({1, 3000, 4 << 20});
    run.options.gather = std::array{compiler::GatherWhen::step, compiler::GatherWhen::micro_batch,
                                    compiler::GatherWhen::layers}[random() % 3];
    run.options.reshard_after_forward = random() % 2;
    if (run.mesh.find("dp_shard") >= 0 && random() % 2)
      run.rows.push_back({"dp_shard", "**.{norm1,norm2}.weight", Replicate()});
    const std::string what = str("seed ", GetParam(), " trial ", trial, ": ", run.model, " width ", run.width,
                                 " depth ", run.depth, " context ", run.context, " M ", micro_batches, " on ",
                                 text(run.mesh), " zero ", run.zero, " buckets ", run.options.bucket_bytes);
    SCOPED_TRACE(what);
    const TinyResult many = train_tiny(run);
    if (tp == 1) {
      EXPECT_EQ(one.losses, many.losses);
      EXPECT_EQ(one.norms, many.norms);
      EXPECT_EQ(one.hash, many.hash);
      continue;
    }
    for (size_t i = 0; i < one.losses.size(); ++i) {
      EXPECT_LT(relative_difference(one.losses[i], many.losses[i]), 2e-5);
      EXPECT_LT(relative_difference(one.norms[i], many.norms[i]), 1e-4);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, Fuzz, testing::Range(1u, 5u));

}  // namespace
}  // namespace lockstep::tests
