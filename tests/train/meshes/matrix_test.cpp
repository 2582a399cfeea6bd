// The data-parallel family, one matrix: {gpt, llama} x {DDP, ZeRO 1, 2, 3, HSDP} x ranks give one rank's
// bits, compared as strings.
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/models/gpt.h"
#include "core/optim/adamw.h"
#include "tests/support/tiny_run.h"

namespace lockstep::tests {
namespace {

struct Arrangement {
  std::string name;
  Mesh mesh;
  int zero = 3;
};

std::vector<Arrangement> arrangements() {
  std::vector<Arrangement> out;
  for (int64_t ranks : {1, 2, 3, 4, 6, 8}) {
    out.push_back({str("ddp ", ranks), {{ranks}, {"dp_replicate"}}, 3});
    for (int zero : {1, 2, 3}) out.push_back({str("zero", zero, " ", ranks), {{ranks}, {"dp_shard"}}, zero});
  }
  // Where one of the dims has one rank, ZeRO 1 and 2 are those of the other dim alone.
  for (auto [replicate, shard] : {std::pair<int64_t, int64_t>{1, 1}, {1, 2}, {3, 1}, {2, 2}, {2, 4}})
    for (int zero : replicate > 1 && shard > 1 ? std::vector<int>{1, 2, 3} : std::vector<int>{3})
      out.push_back({str("hsdp [", replicate, ", ", shard, "] zero ", zero),
                     {{replicate, shard}, {"dp_replicate", "dp_shard"}},
                     zero});
  out.push_back({"hsdp, dims the other way round", {{2, 2}, {"dp_shard", "dp_replicate"}}, 3});
  return out;
}

class Matrix : public testing::TestWithParam<std::string> {};

// 6 micro-batches: lanes that no rank count but 1, 2, 3 and 6, one each, divides; rows (29, 24, 12, 72, 40,
// ...) that 8 ranks do not divide; masked targets.
TEST_P(Matrix, EveryArrangementGivesTheBitsOfOneRank) {
  TinyRun run{.model = GetParam(), .mask_every = 7};
  const TinyResult one = train_tiny(run);
  EXPECT_NE(one.losses.front(), one.losses.back())
      << "training changes nothing: the comparison would be empty";
  for (const auto& arrangement : arrangements()) {
    TinyRun other = run;
    other.mesh = arrangement.mesh, other.zero = arrangement.zero;
    expect_same(one, train_tiny(other), arrangement.name);
  }
}

// bf16 compute: masters lie as rows on every arrangement, and what is gathered is rounded.
TEST_P(Matrix, EveryArrangementGivesTheBitsOfOneRankInBf16) {
  TinyRun run{.model = GetParam(), .compute = DType::bf16, .steps = 2};
  run.options.precision = "bf16";
  const TinyResult one = train_tiny(run);
  for (const auto& arrangement : arrangements()) {
    if (arrangement.mesh.size() == 8 || arrangement.mesh.size() == 1) continue;
    TinyRun other = run;
    other.mesh = arrangement.mesh, other.zero = arrangement.zero;
    expect_same(one, train_tiny(other), arrangement.name);
  }
}

// Lanes of several micro-batches, one more rank than micro-batches, small buckets, dropout; and the other
// backends.
TEST_P(Matrix, LanesBucketsDropoutAndBackendsToo) {
  for (auto [global, lanes] : {std::pair<int64_t, int64_t>{48, 3}, {28, 7}, {8, 2}}) {
    TinyRun run{.model = GetParam(), .global = global, .lanes = lanes, .steps = 2, .dropout = 0.1};
    const TinyResult one = train_tiny(run);
    for (int64_t shard : {2, 3})
      for (int zero : {2, 3})
        for (int64_t bucket : {int64_t{1}, int64_t{4} << 20}) {
          TinyRun other = run;
          other.mesh = {{shard}, {"dp_shard"}}, other.zero = zero, other.options.bucket_bytes = bucket;
          expect_same(
              one, train_tiny(other),
              str("M ", global / 4, ", lanes ", lanes, ", zero ", zero, " on ", shard, ", buckets ", bucket));
        }
  }
  // When weights are gathered: every body bucket by bucket with and without a second time for backward, or
  // once per step.
  for (DType compute : {DType::f32, DType::bf16}) {
    TinyRun run{.model = GetParam(), .compute = compute, .global = 28, .steps = 2};
    if (compute == DType::bf16) run.options.precision = "bf16";
    const TinyResult one = train_tiny(run);
    run.mesh = {{2, 2}, {"dp_replicate", "dp_shard"}}, run.options.bucket_bytes = 2000;
    expect_same(one, train_tiny(run), "gathered twice");
    run.options.reshard_after_forward = false;
    expect_same(one, train_tiny(run), "gathered once per micro-batch");
    run.options.gather = compiler::GatherWhen::layers;
    expect_same(one, train_tiny(run), "gathered once, layer by layer over the micro-batches");
    run.options.reshard_after_forward = true;
    expect_same(one, train_tiny(run), "gathered layer by layer, and again for backward");
    run.options.gather = compiler::GatherWhen::step;
    expect_same(one, train_tiny(run), "gathered once per step");
  }
  // DDP of one micro-batch for each rank gathers while it computes, too.
  TinyRun rounded{.model = GetParam(), .compute = DType::bf16, .global = 12, .steps = 3};
  rounded.options.precision = "bf16", rounded.options.bucket_bytes = 700;
  const TinyResult one = train_tiny(rounded);
  rounded.ranks = 3;
  expect_same(one, train_tiny(rounded), "ddp, gathered in the body");
  rounded.options.gather = compiler::GatherWhen::step;
  expect_same(one, train_tiny(rounded), "ddp, gathered before the body");
  rounded.options.gather = compiler::GatherWhen::micro_batch;
  for (const int64_t global : {12, 24}) {  // 12: one round; 24: ranks 1 and 2 have no lane
    TinyRun alone = rounded;
    alone.global = global, alone.lanes = 1;
    const TinyResult three = train_tiny(alone);
    alone.ranks = 1;
    expect_same(train_tiny(alone), three, str("ddp, one lane of ", global / 4));
  }
  TinyRun split{.model = GetParam(), .mesh = {{1, 2}, {"dp_replicate", "tp"}}, .global = 8, .steps = 2};
  const TinyResult both = train_tiny(split);
  split.mesh = {{2, 2}, {"dp_replicate", "tp"}};
  expect_same(both, train_tiny(split), "one round with tp");
  // With tp fixed, when weights are gathered changes no bit either: tp's own collectives are under way where
  // a bucket ends.
  for (int64_t global : {20, 32})
    for (compiler::Backend backend : {compiler::Backend::native, compiler::Backend::eager}) {
      TinyRun run{.model = GetParam(), .mesh = {{2, 2}, {"dp_shard", "tp"}}, .global = global, .steps = 2};
      run.options.backend = backend, run.options.bucket_bytes = 700;
      const TinyResult each = train_tiny(run);
      run.options.gather = compiler::GatherWhen::layers;
      expect_same(each, train_tiny(run), str("layer by layer with tp, M ", global / 4));
      run.options.gather = compiler::GatherWhen::step;
      expect_same(each, train_tiny(run), str("once per step with tp, M ", global / 4));
    }
  for (compiler::Backend backend : {compiler::Backend::eager, compiler::Backend::reference}) {
    TinyRun run{.model = GetParam(), .steps = 2};
    run.options.backend = backend;
    const TinyResult one = train_tiny(run);
    run.mesh = {{2, 2}, {"dp_replicate", "dp_shard"}};
    expect_same(one, train_tiny(run), "hsdp");
  }
}

// Ranks on several hosts: an exchange inside hosts, then across, for each level, small buckets, lanes of one
// and of two micro-batches; also where hosts change nothing, because a host has one data rank, or hosts split
// groups unevenly.
TEST_P(Matrix, HostsChangeNoBit) {
  const int64_t lanes = GetParam() == "gpt" ? 0 : 3;
  TinyRun run{.model = GetParam(), .lanes = lanes, .mask_every = 7};
  run.options.bucket_bytes = 5000;
  const TinyResult one = train_tiny(run);
  for (const auto& arrangement : arrangements())
    for (int64_t node : {2, 3, 4}) {
      if (arrangement.mesh.size() < 4 || (node == 3 && arrangement.mesh.size() != 8) ||
          node >= arrangement.mesh.size())
        continue;
      TinyRun other = run;
      other.mesh = arrangement.mesh, other.zero = arrangement.zero, other.ranks_per_node = node;
      expect_same(one, train_tiny(other), str(arrangement.name, " on hosts of ", node, ", lanes ", lanes));
      if (node != 2 || other.zero != 3) continue;
      other.options.gather = compiler::GatherWhen::layers;
      expect_same(one, train_tiny(other),
                  str(arrangement.name, " on hosts of ", node, ", lanes ", lanes, ", layer by layer"));
    }
  TinyRun beside_tp{.model = GetParam()};
  beside_tp.mesh = {{4, 2}, {"dp_replicate", "tp"}};
  const TinyResult flat = train_tiny(beside_tp);
  beside_tp.ranks_per_node = 4;
  expect_same(flat, train_tiny(beside_tp), "two data ranks of a host, each of two tp ranks");
}

TEST_P(Matrix, FreeNumericsStayClose) {
  TinyRun run{.model = GetParam(), .mask_every = 7};
  const TinyResult want = train_tiny(run);
  run.options.invariant = false;
  for (const auto& arrangement : arrangements()) {
    if (arrangement.mesh.size() == 8 || arrangement.mesh.size() == 1) continue;
    run.mesh = arrangement.mesh, run.zero = arrangement.zero;
    const TinyResult got = train_tiny(run);
    for (size_t i = 0; i < want.losses.size(); ++i) {
      EXPECT_LT(relative_difference(want.losses[i], got.losses[i]), 1e-5)
          << arrangement.name << ", step " << i;
      EXPECT_LT(relative_difference(want.norms[i], got.norms[i]), 1e-4) << arrangement.name << ", step " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, Matrix, testing::Values("gpt", "llama"));

// The 6-layer, 384-wide GPT: what a rank holds is its share, by what is planned (bytes_per_rank) and what is
// allocated.
TEST(FsdpState, PerRankIsTheShareOfTheWhole) {
  auto held = [](int64_t ranks, int zero) {
    LiveMesh mesh = solo_mesh();
    mesh.words = {{ranks}, {"dp_shard"}};
    State state(mesh, 1);
    state.zero(zero);
    models::Gpt gpt(state.root(), {.vocab = 256, .context = 256, .width = 384, .depth = 6, .heads = 6});
    AdamW adamw(state / "optim", {});
    state.allocate();
    int64_t allocated = 0;
    for (const Array* array : state.arrays()) allocated += static_cast<int64_t>(array->data.bytes());
    EXPECT_NEAR(static_cast<double>(allocated), static_cast<double>(state.bytes_per_rank()),
                0.01 * static_cast<double>(allocated))
        << ranks;
    return allocated;
  };
  const auto total = static_cast<double>(held(1, 3));
  for (int64_t ranks : {2, 4, 8}) {
    EXPECT_NEAR(static_cast<double>(held(ranks, 3)), total / static_cast<double>(ranks),
                0.01 * total / static_cast<double>(ranks))
        << ranks;
    // ZeRO 1 and 2: the parameters (a third of the state) are whole.
    EXPECT_NEAR(static_cast<double>(held(ranks, 1)), total / 3 + total * 2 / 3 / static_cast<double>(ranks),
                0.01 * total)
        << ranks;
  }
}

}  // namespace
}  // namespace lockstep::tests
