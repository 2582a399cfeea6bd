// Tables much larger than what a micro-batch takes of them, under a policy: rows are taken before they are
// rounded, and gradients of the whole table are not rounded. Equal bits on any ranks.
#include <gtest/gtest.h>

#include <cmath>

#include "compiler/compile/compile.h"
#include "compiler/compile/forward.h"
#include "core/base/philox.h"
#include "core/nn/layers.h"
#include "core/optim/adamw.h"
#include "distributed/local/local_world.h"

namespace lockstep {
namespace {
using compiler::BatchField;
using Batch = std::vector<Tensor>;

constexpr int64_t kMicro = 2, kGlobal = 12, kWords = 250, kIds = 6, kWidth = 8;
const std::vector<BatchField> kFields{{"ids", DType::i32, {kMicro, kIds}},
                                      {"rows", DType::f32, {kMicro, kWidth}},
                                      {"wanted", DType::f32, {kMicro, 3}}};

// Read by a layer and by hand; `tied`: as the head, too, which wants the table rounded whole.
struct Large {
  Large(State& s, bool reads_whole)
      : words(s / "words", kWords, kWidth), out(s / "out", kWidth, 3), tied(reads_whole) {}
  Loss loss(const Batch& b) const {
    Tensor taken = words(b[0]), again = take(words.weight.computed(b[0]), select(b[0], 1, 0));
    Tensor x = tanh(sum(taken, {1}) + again + b[1]);
    Loss made = mse_loss(out(x), b[2]);
    if (tied) made.sum += sum(square(words.logits(x)));
    return made;
  }
  Embedding words;
  Linear out;
  bool tied;
};

void fill(int64_t step, int64_t first, int64_t count, const std::vector<void*>& to) {
  for (size_t f = 0; f < kFields.size(); ++f) {
    const int64_t each = numel(kFields[f].shape) / kMicro;
    for (int64_t e = 0; e < count * each; ++e) {
      const float u = philox::uniform(
          philox::bits(7, f, static_cast<uint64_t>(step % 3), static_cast<uint64_t>(first * each + e)));
      if (f == 0)
        static_cast<int32_t*>(to[f])[e] = static_cast<int32_t>(u * 40);  // with ids that come again
      else
        static_cast<float*>(to[f])[e] = 2 * u - 1;
    }
  }
}

struct Result {
  std::vector<double> losses;
  std::string hash;
};
Result train(DType compute, const Mesh& words, const std::vector<std::string>& without = {}) {
  Result out;
  distributed::local_mesh(static_cast<int>(words.size()), words, [&](LiveMesh& mesh) {
    State state(mesh, 3);
    const Large model(state, false);
    AdamW adamw(state / "optim", {.lr = 1e-2, .clip = 1});
    state.compute_dtype(compute);
    compiler::CompileOptions options;
    options.skip_passes = without;
    compiler::Step step = compile(
        state, kFields, {kGlobal, kMicro, 0},
        [&](const Batch& batch) {
          Loss loss = model.loss(batch);
          adamw.update(grad(loss, state.parameters()));
          return loss;
        },
        options);
    state.materialize();
    std::vector<double> losses;
    for (int64_t i = 1; i <= 6; ++i) {
      auto result = step.run({i, [&](int64_t first, int64_t count, const std::vector<void*>& to) {
                                fill(i, first, count, to);
                              }});
      losses.push_back(result.metrics.at("loss"));
    }
    const std::string hash = state_hash(std::as_const(state).arrays(), mesh);
    if (mesh.rank == 0) out = {losses, hash};
  });
  return out;
}

TEST(RoundedRows, EqualBitsOnAnyRanks) {
  for (DType compute : {DType::bf16, DType::f16}) {
    const Result one = train(compute, {{1}, {"dp_replicate"}}),
                 full = train(DType::f32, {{1}, {"dp_replicate"}});
    EXPECT_NE(one.losses, full.losses) << "nothing was rounded";
    EXPECT_NEAR(one.losses.back(), full.losses.back(), 2e-2 * std::fabs(full.losses.back()));
    for (const Mesh& mesh :
         {Mesh{{2}, {"dp_replicate"}}, Mesh{{3}, {"dp_replicate"}}, Mesh{{2}, {"dp_shard"}}}) {
      const Result many = train(compute, mesh);
      EXPECT_EQ(one.losses, many.losses) << text(mesh);
      EXPECT_EQ(one.hash, many.hash) << text(mesh);
    }
  }
}

// Forward the values are the same; backward the gradient is summed in f32, and rounded nowhere.
TEST(RoundedRows, TheFirstLossIsThatOfARoundedTable) {
  const Mesh one{{1}, {"dp_replicate"}};
  const Result rows = train(DType::bf16, one), table = train(DType::bf16, one, {"round_rows"});
  EXPECT_EQ(rows.losses.front(), table.losses.front());
  EXPECT_NE(rows.hash, table.hash);
}

int converts_of_the_table(DType compute, bool tied, const std::vector<std::string>& without) {
  const LiveMesh mesh = solo_mesh();
  State state(mesh, 3);
  const Large model(state, tied);
  AdamW adamw(state / "optim", {.lr = 1e-2});
  state.compute_dtype(compute);
  compiler::CompileOptions options;
  options.skip_passes = without;
  const compiler::StepPlan plan = compiler::plan_step(
      state, mesh.words, kFields, {kGlobal, kMicro, 0},
      [&](const Batch& batch) {
        Loss loss = model.loss(batch);
        adamw.update(grad(loss, state.parameters()));
        return loss;
      },
      options);
  int count = 0;
  for (const Node& node : plan.phases.whole.nodes)
    count += node.op == ops::convert && plan.phases.whole[node.outputs[0]].shape == Shape{kWords, kWidth};
  return count;
}
TEST(RoundedRows, NoTableIsRoundedWholeUnlessSomethingReadsItWhole) {
  for (DType compute : {DType::bf16, DType::f16}) {
    EXPECT_EQ(converts_of_the_table(compute, false, {}), 0) << name(compute);
    EXPECT_GT(converts_of_the_table(compute, false, {"round_rows"}), 0) << "without the pass";
    EXPECT_EQ(converts_of_the_table(compute, true, {}), converts_of_the_table(compute, true, {"round_rows"}))
        << "a tied head reads the rounded table";
  }
}

// A small table stays rounded whole, as models of language have it: what travels of it is half as much.
TEST(RoundedRows, ATableOfFewRowsStays) {
  const LiveMesh mesh = solo_mesh();
  State state(mesh, 3);
  const Embedding words(state / "words", 8 * kIds - 1, kWidth);
  state.compute_dtype(DType::bf16);
  compiler::Forward forward(state, {{"ids", DType::i32, {kMicro, kIds / 2}}},
                            [&](const Batch& b) { return words(b[0]); }, {});
  state.materialize();
  std::vector<int32_t> ids{0, 1, 2, 3, 4, 46};
  const auto* rows = static_cast<const uint16_t*>(forward.run({ids.data()}));
  const auto* table = reinterpret_cast<const float*>(state.array("words.weight").data.data());
  for (size_t i = 0; i < ids.size(); ++i)
    for (int64_t c = 0; c < kWidth; ++c)
      EXPECT_EQ(get_double(DType::bf16, rows, static_cast<int64_t>(i) * kWidth + c), [&] {
        uint16_t rounded = 0;
        set_double(DType::bf16, &rounded, 0, table[ids[i] * kWidth + c]);
        return get_double(DType::bf16, &rounded, 0);
      }());
}

}  // namespace
}  // namespace lockstep
