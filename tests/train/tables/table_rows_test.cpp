// Gradients of dense tables by the rows that a step takes: the bits of the whole gradient, on every mesh.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "compiler/compile/compile.h"
#include "compiler/program/show/print.h"
#include "core/base/philox.h"
#include "core/nn/layers.h"
#include "core/optim/adafactor.h"
#include "core/optim/adamw.h"
#include "distributed/local/local_world.h"

namespace lockstep {
namespace {
using namespace compiler;

// 5 ids of each of 2 samples: of 31 in all a step of 3 micro-batches takes 30, a table of 240 rows is large
// enough for their gradient by rows, and one of 239 is not.
constexpr int64_t kRows = 240, kWidth = 6, kMicro = 2, kIds = 5, kTaken = 31;
const std::vector<BatchField> kFields{{"ids", DType::i32, {kMicro, kIds}}, {"y", DType::f32, {kMicro, 3}}};

void fill(int64_t step, int64_t first, int64_t count, const std::vector<void*>& to) {
  auto bits = [&](uint64_t stream, int64_t i) {
    return philox::bits(5, stream, static_cast<uint64_t>(step), static_cast<uint64_t>(i));
  };
  for (int64_t i = 0; i < count * kIds; ++i)
    static_cast<int32_t*>(to[0])[i] = static_cast<int32_t>(bits(0, first * kIds + i) % kTaken) * 7;
  for (int64_t i = 0; i < count * 3; ++i)
    static_cast<float*>(to[1])[i] = philox::uniform(bits(1, first * 3 + i));
}

using Made = std::unique_ptr<Optimizer>;
Made adamw(State& s) { return std::make_unique<AdamW>(s / "optim", AdamWOptions{.lr = 0.05, .clip = 0.2}); }
Made adafactor(State& s) { return std::make_unique<Adafactor>(s / "optim"); }

struct How {
  int64_t rows = kRows, global = 3 * kMicro;
  std::function<Made(State&)> optimizer = adamw;
  int zero = 3;
  CompileOptions options = {};
  DType compute = DType::f32;
  float norm_limit = 1e30f;
};
struct Result {
  std::vector<double> losses, norms;
  std::vector<float> table;
  std::string hash, certificate, program;
  bool by_rows() const { return program.find("by the rows") != std::string::npos; }
};
Result train(const Mesh& words, const How& how) {
  Result out;
  distributed::local_mesh(static_cast<int>(words.size()), words, [&](LiveMesh& mesh) {
    State state(mesh, 3);
    state.zero(how.zero);
    const Embedding table(state / "table", how.rows, kWidth, EmbeddingOptions{init::normal(0.3)});
    const Linear last(state / "last", kWidth, 3);
    const Made optimizer = how.optimizer(state);
    state.compute_dtype(how.compute);
    Step step = compile(
        state, kFields, {how.global, kMicro, 0},
        [&](const std::vector<Tensor>& batch) {
          Loss loss = mse_loss(last(tanh(sum(table(batch[0]), {1}))), batch[1]);
          optimizer->update(grad(loss, state.parameters()));
          return loss;
        },
        how.options);
    state.materialize();
    Result mine;
    for (int64_t i = 1; i <= 4; ++i) {
      StepInput input{
          i, [&](int64_t first, int64_t count, const std::vector<void*>& to) { fill(i, first, count, to); }};
      input.norm_limit = how.norm_limit;
      const auto result = step.run(input);
      mine.losses.push_back(result.metrics.at("loss")), mine.norms.push_back(result.metrics.at("grad_norm"));
    }
    mine.hash = state_hash(std::as_const(state).arrays(), mesh);
    mine.certificate = step.certificate(), mine.program = print(step.program());
    if (mesh.rank != 0) return;
    const Array& array = state.array("table.weight");
    mine.table = {array.data.as<float>(), array.data.as<float>() + array.local_numel()};
    out = std::move(mine);
  });
  return out;
}
const Mesh kOne{{1}, {"dp_replicate"}};
CompileOptions skipping() {
  CompileOptions out;
  out.skip_passes = {"gradients_by_rows"};
  return out;
}

TEST(TableRows, EqualBitsOnEveryMesh) {
  for (DType compute : {DType::f32, DType::bf16, DType::f16}) {
    const Result one = train(kOne, {.compute = compute});
    const bool by_rows =
        compute != DType::f16;  // whose gradients are divided by the loss scale before they are summed
    EXPECT_EQ(one.by_rows(), by_rows);
    struct Way {
      Mesh mesh;
      int zero = 3;
    };
    for (const Way& way :
         {Way{{{2}, {"dp_replicate"}}}, Way{{{3}, {"dp_replicate"}}}, Way{{{4}, {"dp_replicate"}}},
          Way{{{2}, {"dp_shard"}}, 1}, Way{{{2}, {"dp_shard"}}, 2}, Way{{{3}, {"dp_shard"}}},
          Way{{{7}, {"dp_shard"}}}, Way{{{2, 2}, {"dp_replicate", "dp_shard"}}}}) {
      const Result many = train(way.mesh, {.zero = way.zero, .compute = compute});
      const std::string where = str(name(compute), " ", text(way.mesh), " zero ", way.zero);
      EXPECT_EQ(many.by_rows(), by_rows) << where;
      EXPECT_EQ(one.losses, many.losses) << where;
      EXPECT_EQ(one.norms, many.norms) << where;
      EXPECT_EQ(one.hash, many.hash) << where;
      EXPECT_EQ(one.certificate, many.certificate) << where;
    }
  }
}

// In one micro-batch rows are added as the whole gradient's are; over several, in their order, not in the
// tree's.
TEST(TableRows, AreTheWholeGradient) {
  const Result rows = train(kOne, {.global = kMicro}),
               whole = train(kOne, {.global = kMicro, .options = skipping()});
  EXPECT_TRUE(rows.by_rows());
  EXPECT_FALSE(whole.by_rows());
  EXPECT_EQ(rows.losses, whole.losses);
  EXPECT_EQ(rows.norms, whole.norms);
  EXPECT_EQ(rows.hash, whole.hash);
  const Result many = train(kOne, {}), all = train(kOne, {.options = skipping()});
  ASSERT_EQ(many.table.size(), all.table.size());
  for (size_t i = 0; i < all.table.size(); ++i) EXPECT_NEAR(many.table[i], all.table[i], 2e-5) << i;
}

TEST(TableRows, TheReferenceAgrees) {
  CompileOptions options;
  options.backend = Backend::reference;
  const Result native = train(kOne, {}), reference = train(kOne, {.options = options});
  EXPECT_TRUE(reference.by_rows());
  for (size_t i = 0; i < native.table.size(); ++i)
    EXPECT_NEAR(native.table[i], reference.table[i], 2e-5) << i;
}

TEST(TableRows, AreTheSameOnAnyThreads) {
  How how;
  how.options.threads = 1;
  const std::string one = train(kOne, how).hash;
  for (int threads : {2, 3}) {
    how.options.threads = threads;
    EXPECT_EQ(train(kOne, how).hash, one) << threads;
  }
}

// A table that is too small for its ids, and an optimizer that reads the whole gradient.
TEST(TableRows, StayWholeWhereTheyMust) {
  EXPECT_TRUE(train(kOne, {}).by_rows());
  EXPECT_FALSE(train(kOne, {.rows = 239}).by_rows());
  const Result whole = train(kOne, {.optimizer = adafactor});
  EXPECT_FALSE(whole.by_rows());
  EXPECT_EQ(whole.hash, train(kOne, {.optimizer = adafactor, .options = skipping()}).hash);
}

TEST(TableRows, ABlockedStepChangesNothing) {
  const Result blocked = train(kOne, {.norm_limit = 1e-20f});
  EXPECT_EQ(blocked.table, train(kOne, {.options = skipping(), .norm_limit = 1e-20f}).table);
  EXPECT_NE(blocked.table, train(kOne, {}).table);
}
}  // namespace
}  // namespace lockstep
