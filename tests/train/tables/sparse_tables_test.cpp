// Sparse tables: PyTorch's numbers, the same bits on every mesh, and what a step reads and writes of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>

#include "checkpoint/checkpoint.h"
#include "compiler/compile/compile.h"
#include "core/base/json.h"
#include "core/base/philox.h"
#include "core/nn/layers.h"
#include "core/optim/rowwise_adagrad.h"
#include "core/optim/sgd.h"
#include "core/optim/sparse_adam.h"
#include "distributed/local/local_world.h"
#include "tests/support/scratch_folder.h"
#include "tests/train/tables/sparse_clicks.h"

namespace lockstep {
namespace {
using namespace compiler;

// As in tests/golden/optimizers/make.py.
float value(int64_t i, int64_t salt) { return static_cast<float>((i * 37 + salt * 101) % 97 - 48) / 64.0f; }
constexpr int64_t kRows = 9, kIds = 6, kSteps = 5;
int32_t id(int64_t i, int64_t step) { return static_cast<int32_t>((i * i + 3 * step) % kRows); }

// Steps in which the gradients of taken rows are given: the loss is the sum of rows times data, over one
// sample; each micro-batch has an id of its own, so that ids come again across micro-batches.
std::vector<float> run_given(const Make& make, const CompileOptions& options = {}, int64_t steps = kSteps,
                             const std::vector<int64_t>& passed_over = {}) {
  const LiveMesh mesh = solo_mesh();
  State state(mesh, 3);
  const Embedding table(state / "table", kRows, kWidth, EmbeddingOptions{.sparse = true});
  const Made optimizer = make(state);
  Step step = compile(
      state, {{"ids", DType::i32, {1, 2}}, {"g", DType::f32, {1, 2, kWidth}}}, {kIds / 2, 1, 0},
      [&](const Batch& batch) {
        Loss loss{sum(table(batch[0]) * batch[1], {0, 1, 2}), full(batch[0], {}, 1, DType::i64)};
        optimizer->update(grad(loss, state.parameters()));
        return loss;
      },
      options);
  state.materialize();
  Array& array = state.array("table.weight");
  for (int64_t i = 0; i < kRows * kWidth; ++i) array.data.as<float>()[i] = value(i, 1);
  array.host_wrote();
  for (int64_t t = 1; t <= steps; ++t) {
    const bool bad = std::find(passed_over.begin(), passed_over.end(), t) != passed_over.end();
    const StepResult done = step.run(
        {t, [&](int64_t first, int64_t count, const std::vector<void*>& fields) {
           for (int64_t i = 0; i < count * 2; ++i) static_cast<int32_t*>(fields[0])[i] = id(first * 2 + i, t);
           for (int64_t i = 0; i < count * 2 * kWidth; ++i)  // the loss is a mean over the micro-batches
             static_cast<float*>(fields[1])[i] = 3 * value(first * 2 * kWidth + i, 10 + t);
           if (bad) static_cast<float*>(fields[1])[0] = std::numeric_limits<float>::quiet_NaN();
         }});
    EXPECT_EQ(done.applied, !bad);
  }
  return {array.data.as<float>(), array.data.as<float>() + kRows * kWidth};
}

std::map<std::string, Make> kinds() {
  return {{"sparse_adam",
           [](State& s) {
             return std::make_unique<SparseAdam>(
                 s / "optim", SparseAdamOptions{.lr = 0.02, .betas = {0.8, 0.9}, .eps = 1e-6});
           }},
          {"sparse_adagrad",
           [](State& s) {
             return std::make_unique<Adagrad>(s / "optim", AdagradOptions{.lr = 0.1, .eps = 1e-6});
           }},
          {"sparse_sgd", [](State& s) { return std::make_unique<Sgd>(s / "optim", SgdOptions{.lr = 0.05}); }},
          {"rowwise_adagrad", [](State& s) {
             return std::make_unique<RowwiseAdagrad>(s / "optim", AdagradOptions{.lr = 0.1, .eps = 1e-6});
           }}};
}

TEST(SparseTables, AgreeWithPyTorch) {
  std::ifstream file(LOCKSTEP_GOLDEN_OPTIMIZERS);
  const Json numbers = Json::parse(file);
  for (const auto& [name, make] : kinds()) {
    const auto wanted = numbers["sparse"][name].get<std::vector<double>>();
    for (Backend backend : {Backend::native, Backend::reference}) {
      CompileOptions options;
      options.backend = backend;
      const std::vector<float> found = run_given(make, options);
      ASSERT_EQ(found.size(), wanted.size());
      for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(found[i], wanted[i], 3e-6) << name << " " << i;
    }
  }
}

// An optimizer counts the updates that it made.
TEST(SparseTables, AgreeWithPyTorchBehindStepsThatArePassedOver) {
  std::ifstream file(LOCKSTEP_GOLDEN_OPTIMIZERS);
  const Json numbers = Json::parse(file);
  for (const auto& [name, make] : kinds()) {
    const auto wanted = numbers["sparse_skipped"][name].get<std::vector<double>>();
    const std::vector<float> found =
        run_given(make, {}, 9, numbers["passed_over"].get<std::vector<int64_t>>());
    ASSERT_EQ(found.size(), wanted.size());
    for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(found[i], wanted[i], 3e-6) << name << " " << i;
  }
}

TEST(SparseTables, EqualBitsOnEveryMesh) {
  for (const auto& [name, make] : clipped())
    for (DType compute : {DType::f32, DType::bf16, DType::f16}) {
      const Result one = train(make, {{1}, {"dp_replicate"}}, {.compute = compute});
      EXPECT_LT(one.losses[3], one.losses[0]) << name << ": the same samples, three steps later";
      struct Way {
        Mesh mesh;
        int zero = 3;
      };
      for (const Way& way :
           {Way{{{2}, {"dp_replicate"}}}, Way{{{3}, {"dp_replicate"}}}, Way{{{2}, {"dp_shard"}}, 1},
            Way{{{2}, {"dp_shard"}}, 2}, Way{{{2}, {"dp_shard"}}}, Way{{{3}, {"dp_shard"}}},
            Way{{{7}, {"dp_shard"}}}, Way{{{2, 2}, {"dp_replicate", "dp_shard"}}},
            Way{{{6}, {"dp_replicate"}}}, Way{{{8}, {"dp_replicate"}}}}) {
        const Result many = train(make, way.mesh, {.compute = compute, .zero = way.zero});
        const std::string where =
            str(name, " ", lockstep::name(compute), " ", text(way.mesh), " zero ", way.zero);
        EXPECT_EQ(one.losses, many.losses) << where;
        EXPECT_EQ(one.norms, many.norms) << where;
        EXPECT_EQ(one.hash, many.hash) << where;
        EXPECT_EQ(one.certificate, many.certificate) << where;
      }
    }
}

TEST(SparseTables, GoOnOnAnotherMesh) {
  const ScratchFolder folder;
  const Make make = clipped().at("sparse_adam");
  const Result whole = train(make, {{1}, {"dp_replicate"}});
  const std::vector<Mesh> meshes{
      {{1}, {"dp_replicate"}}, {{3}, {"dp_shard"}}, {{2, 2}, {"dp_replicate", "dp_shard"}}};
  for (size_t from = 0; from < meshes.size(); ++from)
    train(make, meshes[from], {.steps = 3, .save = folder.path(str(from))});
  for (size_t from = 0; from < meshes.size(); ++from)
    for (const Mesh& to : meshes) {
      const Result rest = train(make, to, {.load = folder.path(str(from))});
      EXPECT_EQ(rest.losses.back(), whole.losses.back()) << text(meshes[from]) << " to " << text(to);
      EXPECT_EQ(rest.hash, whole.hash) << text(meshes[from]) << " to " << text(to);
    }
}

// Beyond the limit of the norm no row is written, and no moment.
TEST(SparseTables, ABlockedStepChangesNoRow) {
  const LiveMesh mesh = solo_mesh();
  State state(mesh, 3);
  const Clicks model(state, true);
  SparseAdam adam(state / "optim");
  Step step = compile(state, kFields, {kGlobal, kMicro, 0},
                      [&](const Batch& batch) {
                        Loss loss = model.loss(batch);
                        adam.update(grad(loss, state.parameters()));
                        return loss;
                      },
                      {});
  state.materialize();
  const std::string before = state_hash(std::as_const(state).arrays(), mesh);
  StepInput input{
      1, [](int64_t first, int64_t count, const std::vector<void*>& to) { fill(1, first, count, to); }};
  input.norm_limit = 1e-20f;
  EXPECT_FALSE(step.run(input).applied);
  EXPECT_EQ(state_hash(std::as_const(state).arrays(), mesh), before);
  input.norm_limit = 1e20f;
  EXPECT_TRUE(step.run(input).applied);
  EXPECT_NE(state_hash(std::as_const(state).arrays(), mesh), before);
}

// Rows that no id names stay, with their moments; nothing of the size of the table is computed.
TEST(SparseTables, AStepTouchesTheRowsOfItsIdsAlone) {
  const Result one = train(clipped().at("sparse_adam"), {{1}, {"dp_replicate"}}, {.steps = 1});
  const auto& moments = one.state.at("optim.words.weight.exp_avg_sq");
  int moved = 0;
  for (int64_t row = 0; row < kWords; ++row) {
    const bool moves = moments[static_cast<size_t>(row * kWidth)] != 0;
    moved += moves;
    EXPECT_TRUE(!moves || row < 12) << "ids are below 12";
  }
  EXPECT_GT(moved, 3);
  const LiveMesh mesh = solo_mesh();
  State state(mesh, 3);
  const Clicks model(state, true);
  SparseAdam adam(state / "optim");
  const StepPlan plan = plan_step(state, mesh.words, kFields, {kGlobal, kMicro, 0},
                                  [&](const Batch& batch) {
                                    Loss loss = model.loss(batch);
                                    adam.update(grad(loss, state.parameters()));
                                    return loss;
                                  },
                                  {});
  for (const Node& node : plan.phases.whole.nodes)
    for (ValueId v : node.outputs)
      EXPECT_TRUE(node.op == ops::put_rows || plan.phases.whole[v].shape != Shape({kWords, kWidth}))
          << node.op;
}

// Rows whose ids are no data, in a table that no data reaches: each micro-batch counts.
TEST(SparseTables, PlacesThatAreCountedAreTaken) {
  auto last = [](const Mesh& words) {
    std::string out;
    distributed::local_mesh(static_cast<int>(words.size()), words, [&](LiveMesh& mesh) {
      State state(mesh, 3);
      const Embedding places(state / "places", kWords, kWidth, EmbeddingOptions{init::normal(0.3), true});
      Sgd sgd(state / "optim", {.lr = 0.1});
      Step step = compile(state, kFields, {kGlobal, kMicro, 0},
                          [&](const Batch& b) {
                            Tensor rows = places(iota(b[0], {kBag}, 0, DType::i32));
                            Loss loss{sum(square(rows), {0, 1}), full(b[0], {}, 1, DType::i64)};
                            sgd.update(grad(loss, state.parameters()));
                            return loss;
                          },
                          {});
      state.materialize();
      const auto* table = state.array("places.weight").data.as<float>();
      const bool first = mesh.rank == 0;  // which has these rows on every mesh
      const float before = first ? table[0] : 0, other = first ? table[kBag * kWidth] : 0;
      step.run(
          {1, [](int64_t first, int64_t count, const std::vector<void*>& to) { fill(1, first, count, to); }});
      EXPECT_NEAR(first ? table[0] : 0, before * 0.8f, 1e-6) << "the mean over micro-batches of 2 p";
      EXPECT_EQ(first ? table[kBag * kWidth] : 0, other);
      const std::string hash = state_hash(std::as_const(state).arrays(), mesh);
      if (mesh.rank == 0) out = hash;
    });
    return out;
  };
  EXPECT_EQ(last({{1}, {"dp_replicate"}}), last({{2}, {"dp_shard"}}));
}

// SGD and Adagrad leave rows alone whose gradient is 0, so a dense table has the same values but for the
// order of sums.
TEST(SparseTables, AreAsDenseOnesWhereTheRuleIs) {
  for (const char* name : {"sgd", "adagrad"}) {
    const Make make = clipped().at(name);
    const Result sparse = train(make, {{1}, {"dp_replicate"}}),
                 dense = train(make, {{1}, {"dp_replicate"}}, {.sparse = false});
    for (size_t i = 0; i < sparse.losses.size(); ++i) {
      EXPECT_NEAR(sparse.losses[i], dense.losses[i], 1e-5) << name;
      EXPECT_NEAR(sparse.norms[i], dense.norms[i], 1e-5) << name << ": the norm sees each summed row once";
    }
    for (const char* fqn : {"words.weight", "bags.weight", "out.weight"})
      for (size_t i = 0; i < dense.state.at(fqn).size(); ++i)
        EXPECT_NEAR(sparse.state.at(fqn)[i], dense.state.at(fqn)[i], 2e-5) << name << " " << fqn;
  }
}

}  // namespace
}  // namespace lockstep
