// f16 with a dynamic loss scale: what the scale does step by step, alike on all ranks and backends, which
// steps are applied, and that scaling changes no bit of a gradient that f16 does not round.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "compiler/compile/compile.h"
#include "core/base/philox.h"
#include "core/nn/assign.h"
#include "core/nn/layers.h"
#include "core/nn/metric.h"
#include "core/ops/precision.h"
#include "core/optim/adamw.h"
#include "core/optim/clip.h"
#include "distributed/local/local_world.h"

namespace lockstep {
namespace {

struct Training {
  LossScale scale = {};
  DType compute = DType::f16;
  Mesh mesh{{1}, {"dp_replicate"}};
  compiler::Backend backend = compiler::Backend::native;
  bool exact = false;       // the model in f32: only the scale is left
  bool own_update = false;  // assigned by arithmetic, without an optimizer's norm
  int64_t poisoned = 0;     // a step whose data overflows f16
  int64_t steps = 12;
};
struct Result {
  std::vector<double> losses, norms, scales, good;
  std::vector<bool> applied;
  std::vector<std::string> hashes;  // of weights and moments, per step
};

Result train(const Training& run) {
  Result out;
  distributed::local_mesh(static_cast<int>(run.mesh.size()), run.mesh, [&](LiveMesh& mesh) {
    State state(mesh, 3);
    state.loss_scale(run.scale);
    state.compute_dtype(run.compute);
    const Linear in(state / "in", 8, 16), head(state / "head", 16, 3);
    std::unique_ptr<AdamW> adamw;
    if (!run.own_update)
      adamw = std::make_unique<AdamW>(state / "optim", AdamWOptions{.lr = 1e-2, .clip = 1});
    compiler::CompileOptions options;
    options.backend = run.backend;
    compiler::Step step = compile(
        state, {{"x", DType::f32, {2, 8}}, {"y", DType::f32, {2, 3}}}, {12, 2, 0},
        [&](const std::vector<Tensor>& batch) {
          std::optional<Precision> exact;
          if (run.exact) exact.emplace(batch[0], DType::f32);
          Loss loss = mse_loss(head(tanh(in(batch[0]))), batch[1]);
          Gradients gradients = grad(loss, state.parameters());
          if (adamw) {
            adamw->update(gradients);
            return loss;
          }
          for (size_t i = 0; i < gradients.values.size(); ++i)
            assign(gradients.parameters[i], gradients.parameters[i](loss.sum) - gradients.values[i] * 0.1);
          return loss;
        },
        options);
    state.materialize();
    for (int64_t i = 1; i <= run.steps; ++i) {
      const auto result =
          step.run({i, [&](int64_t first, int64_t count, const std::vector<void*>& to) {
                      for (size_t f = 0; f < 2; ++f) {
                        const int64_t each = f == 0 ? 8 : 3;
                        for (int64_t e = 0; e < count * each; ++e)
                          static_cast<float*>(to[f])[e] = philox::uniform(philox::bits(
                              5, f, static_cast<uint64_t>(i), static_cast<uint64_t>(first * each + e)));
                        if (i == run.poisoned && f == 1 && first == 0) static_cast<float*>(to[f])[0] = 1e30f;
                      }
                    }});
      std::vector<const Array*> trained;
      for (const Array* array : std::as_const(state).arrays())
        if (!array->fqn.starts_with("loss_scale.")) trained.push_back(array);
      const std::string hash = state_hash(trained, mesh);
      if (mesh.rank != 0) continue;
      out.losses.push_back(result.metrics.at("loss"));
      if (result.metrics.count("grad_norm")) out.norms.push_back(result.metrics.at("grad_norm"));
      out.applied.push_back(result.applied);
      out.hashes.push_back(hash);
      if (run.compute != DType::f16) continue;
      out.scales.push_back(*state.array("loss_scale.scale").data.as<float>());
      out.good.push_back(*state.array("loss_scale.good_steps").data.as<float>());
    }
  });
  return out;
}

// torch.amp.GradScaler's rule, from which steps were applied.
void expect_rule(const Result& made, const LossScale& how) {
  double scale = how.first, good = 0;
  for (size_t i = 0; i < made.applied.size(); ++i) {
    if (made.applied[i] && ++good >= static_cast<double>(how.interval))
      scale *= how.growth, good = 0;
    else if (!made.applied[i])
      scale *= how.backoff, good = 0;
    EXPECT_EQ(made.scales[i], scale) << "after step " << i + 1;
    EXPECT_EQ(made.good[i], good) << "after step " << i + 1;
  }
}
// NaN and infinity compare as what they are.
std::vector<std::string> texts(const std::vector<double>& values) {
  std::vector<std::string> out;
  for (double v : values) out.push_back(std::isnan(v) ? "nan" : number_text(v));
  return out;
}
void expect_same(const Result& a, const Result& b, const std::string& what) {
  EXPECT_EQ(texts(a.losses), texts(b.losses)) << what;
  EXPECT_EQ(texts(a.norms), texts(b.norms)) << what;
  EXPECT_EQ(a.scales, b.scales) << what;
  EXPECT_EQ(a.good, b.good) << what;
  EXPECT_EQ(a.applied, b.applied) << what;
  EXPECT_EQ(a.hashes, b.hashes) << what;
}
const std::vector<std::pair<std::string, Mesh>> kMeshes{{"2 ranks", {{2}, {"dp_replicate"}}},
                                                        {"3 ranks", {{3}, {"dp_replicate"}}},
                                                        {"2 ranks, sharded", {{2}, {"dp_shard"}}},
                                                        {"2 by 2", {{2, 2}, {"dp_replicate", "dp_shard"}}}};

// From a scale that overflows: steps are passed over until gradients fit, then it grows until they do not.
TEST(LossScaling, FallsAndGrowsAlikeOnAllRanks) {
  Training run{.scale = {.first = 0x1p22, .interval = 3}};
  const Result one = train(run);
  expect_rule(one, run.scale);
  EXPECT_FALSE(one.applied.front());
  EXPECT_TRUE(one.applied.back() || one.applied[one.applied.size() - 2]);
  EXPECT_GT(*std::max_element(one.good.begin(), one.good.end()), 1);
  int grown = 0;
  for (size_t i = 1; i < one.scales.size(); ++i) grown += one.scales[i] > one.scales[i - 1];
  EXPECT_GT(grown, 0);
  for (size_t i = 1; i < one.hashes.size(); ++i)
    EXPECT_EQ(one.hashes[i] != one.hashes[i - 1], one.applied[i]) << "step " << i + 1;
  for (const auto& [name, mesh] : kMeshes) {
    run.mesh = mesh;
    expect_same(one, train(run), name);
  }
}

TEST(LossScaling, BackendsAgree) {
  Training run{.scale = {.first = 0x1p22, .interval = 3}};
  const Result native = train(run);
  run.backend = compiler::Backend::eager;
  expect_same(native, train(run), "eager");
  run.backend = compiler::Backend::reference;
  const Result reference = train(run);
  expect_rule(reference, run.scale);
  EXPECT_EQ(reference.applied, native.applied);
}

// One bad micro-batch, of one rank: the update is made on no rank, the scale halves, and the run goes on.
TEST(LossScaling, AnOverflowIsPassedOver) {
  Training run{.poisoned = 5};
  const Result one = train(run);
  expect_rule(one, run.scale);
  for (size_t i = 0; i < one.applied.size(); ++i) EXPECT_EQ(one.applied[i], i != 4) << i;
  EXPECT_EQ(one.scales.back(), 32768);
  EXPECT_TRUE(std::isfinite(one.losses.back()));
  run.mesh = {{2}, {"dp_shard"}};
  expect_same(one, train(run), "2 ranks, sharded");
}

// A step that updates by arithmetic of its own is passed over, too: the scale brings the norm along.
TEST(LossScaling, OwnUpdatesAreGuarded) {
  Training run{.scale = {.first = 0x1p22, .interval = 3}, .own_update = true};
  const Result one = train(run);
  expect_rule(one, run.scale);
  EXPECT_FALSE(one.applied.front());
  run.mesh = {{3}, {"dp_replicate"}};
  expect_same(one, train(run), "3 ranks");
}

// In f32 what is scaled and divided again has the bits of what never was.
TEST(LossScaling, ScalingIsExact) {
  const Result plain = train({.compute = DType::f32}), scaled = train({.exact = true});
  EXPECT_EQ(plain.losses, scaled.losses);
  EXPECT_EQ(plain.norms, scaled.norms);
}

TEST(LossScaling, IsNearF32) {
  const Result full = train({.compute = DType::f32}), half = train({});
  for (size_t i = 0; i < full.losses.size(); ++i)
    EXPECT_NEAR(half.losses[i], full.losses[i], 2e-3 * full.losses[i]) << "step " << i + 1;
  EXPECT_NE(full.losses, half.losses);
}

}  // namespace
}  // namespace lockstep
