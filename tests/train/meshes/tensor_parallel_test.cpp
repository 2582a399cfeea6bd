// Tensor and sequence parallelism: training on a mesh with `tp` gives one rank's losses and norms, and its
// own bits on any data mesh.
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/optim/adamw.h"
#include "tests/support/tiny_run.h"

namespace lockstep::tests {
namespace {

TinyRun small(const std::string& model) {
  TinyRun run;
  run.model = model;
  run.width = 32, run.context = 16, run.vocab = 40, run.heads = 4, run.kv_heads = 2, run.global = 8,
  run.micro = 2, run.mask_every = 5;
  return run;
}
TinyRun on(TinyRun run, Shape shape, std::vector<std::string> names) {
  run.mesh = {shape, names};
  run.ranks = static_cast<int>(run.mesh.size());
  return run;
}
void expect_close(const TinyResult& got, const TinyResult& wanted, double most) {
  ASSERT_EQ(got.losses.size(), wanted.losses.size());
  for (size_t i = 0; i < wanted.losses.size(); ++i) {
    EXPECT_LE(relative_difference(wanted.losses[i], got.losses[i]), most)
        << "loss " << i << ": " << wanted.losses[i] << " " << got.losses[i];
    EXPECT_LE(relative_difference(wanted.norms[i], got.norms[i]), most)
        << "norm " << i << ": " << wanted.norms[i] << " " << got.norms[i];
  }
}

class TensorParallel
    : public testing::TestWithParam<std::tuple<std::string, compiler::Backend, double, bool>> {};

TEST_P(TensorParallel, TwoRanksGiveOneRanksNumbers) {
  auto [model, backend, dropout, sequence] = GetParam();
  TinyRun run = small(model);
  run.options.backend = backend;
  run.dropout = dropout;
  run.options.sequence_parallel = sequence;
  TinyResult one = train_tiny(run), two = train_tiny(on(run, {2}, {"tp"}));
  expect_close(two, one, 2e-5);
  EXPECT_LT(two.state_bytes, one.state_bytes * 3 / 4);
}
INSTANTIATE_TEST_SUITE_P(All, TensorParallel,
                         testing::Combine(testing::Values("gpt", "llama"),
                                          testing::Values(compiler::Backend::reference,
                                                          compiler::Backend::native),
                                          testing::Values(0.0, 0.2), testing::Bool()));

// The promise of data parallelism holds beside tp: the same bits on any number of data ranks, twice in a row.
TEST(TensorParallelMesh, DataRanksChangeNoBit) {
  for (const char* model : {"gpt", "llama"}) {
    TinyRun run = small(model);
    run.dropout = 0.1;
    TinyResult two = train_tiny(on(run, {2}, {"tp"}));
    EXPECT_EQ(train_tiny(on(run, {2}, {"tp"})), two) << model;
    TinyResult four = train_tiny(on(run, {2, 2}, {"dp_replicate", "tp"}));
    EXPECT_EQ(four.losses, two.losses) << model;
    EXPECT_EQ(four.norms, two.norms) << model;
    EXPECT_EQ(four.hash, two.hash) << model;
    EXPECT_EQ(four.certificate, two.certificate) << model;
    TinyResult crossed = train_tiny(on(run, {2, 2}, {"tp", "dp_replicate"}));
    EXPECT_EQ(crossed.hash, two.hash) << model;
    expect_close(two, train_tiny(run), 2e-5);
  }
}

// An update with a body of its own runs on the parts that tp leaves of a parameter and its moments.
TEST(TensorParallelMesh, RoundedMomentsAreThoseOfTheParts) {
  TinyRun run = small("llama");
  run.optimizer = [](State& state) -> std::unique_ptr<Optimizer> {
    return std::make_unique<AdamW>(
        state / "optim", AdamWOptions{.lr = warmup_cosine(1e-2, 2, 10), .clip = 1, .moments = DType::bf16});
  };
  const TinyResult one = train_tiny(run), two = train_tiny(on(run, {2}, {"tp"}));
  expect_close(two, one, 1e-3);
  EXPECT_LT(two.state_bytes, one.state_bytes * 3 / 4);
  EXPECT_EQ(train_tiny(on(run, {2, 2}, {"dp_replicate", "tp"})).hash, two.hash);
  EXPECT_EQ(train_tiny(on(run, {2, 2}, {"dp_shard", "tp"})).hash, two.hash);
}

TEST(TensorParallelMesh, FourRanksGiveOneRanksNumbers) {
  for (const char* model : {"gpt", "llama"}) {
    TinyRun run = small(model);
    run.kv_heads = 4;
    run.dropout = 0.1;
    expect_close(train_tiny(on(run, {4}, {"tp"})), train_tiny(run), 2e-5);
  }
}

// No fusion, and one op at a time: the same program, the same bits.
TEST(TensorParallelMesh, EagerIsNative) {
  TinyRun run = on(small("gpt"), {2}, {"tp"});
  run.dropout = 0.1;
  TinyResult native = train_tiny(run);
  run.options.backend = compiler::Backend::eager;
  TinyResult eager = train_tiny(run);
  EXPECT_EQ(eager.losses, native.losses);
  EXPECT_EQ(eager.norms, native.norms);
  EXPECT_EQ(eager.hash, native.hash);
}

TEST(TensorParallelMesh, FreeNumericsAndHalvesStayWithinTolerance) {
  for (const char* model : {"gpt", "llama"}) {
    TinyRun run = small(model);
    TinyResult one = train_tiny(run);
    run.options.invariant = false;
    expect_close(train_tiny(on(run, {2, 2}, {"dp_replicate", "tp"})), one, 2e-5);
    TinyRun half = small(model);
    half.compute = run.model == "gpt" ? DType::bf16 : DType::f16;
    half.options.precision = half.compute == DType::bf16 ? "bf16" : "fp16";
    TinyResult two = train_tiny(on(half, {2}, {"tp"})),
               four = train_tiny(on(half, {2, 2}, {"dp_replicate", "tp"}));
    expect_close(two, train_tiny(half), 2e-2);
    EXPECT_EQ(four.losses, two.losses) << model;
    EXPECT_EQ(four.hash, two.hash) << model;
  }
}

// Rows of the user's own take the place of the model's: all whole is one rank's program twice, a split of the
// feed-forward alone works too.
TEST(TensorParallelMesh, RowsOverrideTheModelsTable) {
  TinyRun run = small("gpt");
  TinyResult one = train_tiny(run);
  TinyRun whole = on(run, {2}, {"tp"});
  whole.rows = {{"tp", "blocks.**", Replicate()}, {"tp", "position.weight", Shard(1)}};
  expect_close(train_tiny(whole), one, 2e-5);
  TinyRun half = on(run, {2}, {"tp"});
  half.rows = {{"tp", "blocks.*.attn.**", Replicate()}};
  expect_close(train_tiny(half), one, 2e-5);
  TinyRun columns = on(run, {2}, {"tp"});
  columns.rows = {{"tp", "position.weight", Shard(1)}};
  expect_close(train_tiny(columns), one, 2e-5);
}

std::string refusal(const TinyRun& run) {
  try {
    train_tiny(run);
  } catch (const UserError& error) { return error.what(); }
  return "";
}

TEST(TensorParallelErrors, ADimThatSplitsNothing) {
  TinyRun run = on(small("gpt"), {2}, {"tp"});
  run.rows = {{"tp", "blocks.**", Replicate()}};
  const std::string text = refusal(run);
  for (const char* words :
       {"the mesh [tp=2] has 2 ranks on tp, but no parameter is split on it",
        "each of them would compute all of the step", "state.place({{\"tp\", \"token.weight\", Shard(0)}})",
        "or name the dim dp_replicate or dp_shard"})
    EXPECT_NE(text.find(words), std::string::npos) << text;
}

TEST(TensorParallelErrors, AllReasonsAndTheNearestSize) {
  TinyRun run = small("llama");
  run.context = 18, run.kv_heads = 2;
  std::string text = refusal(on(run, {4}, {"tp"}));
  EXPECT_NE(text.find("[tp] the model cannot be split over 4 ranks of mesh dim tp:"), std::string::npos)
      << text;
  EXPECT_NE(text.find("2 heads of keys and values do not divide"), std::string::npos) << text;
  EXPECT_NE(text.find("sequences of 18 tokens do not divide (sequence parallelism)"), std::string::npos)
      << text;
  EXPECT_NE(text.find("the nearest tp that works: 2"), std::string::npos) << text;
  run = small("gpt");
  text = refusal(on(run, {3}, {"tp"}));
  EXPECT_NE(text.find("4 heads do not divide"), std::string::npos) << text;
  EXPECT_NE(text.find("blocks.0.mlp.up.weight f32[128,32] as Shard(0): 128 does not divide"),
            std::string::npos)
      << text;
  EXPECT_NE(
      text.find("blocks.0.attn.qkv.weight f32[96,32] as Shard(0,groups=3): 96 / 3 groups does not divide"),
      std::string::npos)
      << text;
  EXPECT_NE(text.find("the nearest tp that works: 2"), std::string::npos) << text;
}

TEST(TensorParallelErrors, ARowThatCannotWorkIsNamed) {
  TinyRun run = on(small("gpt"), {2}, {"tp"});
  run.rows = {{"tp", "token.weight", Shard(0)}};
  std::string text = refusal(run);
  EXPECT_NE(text.find("\"token.weight\" is Shard(0) by the row {\"tp\", \"token.weight\", Shard(0)}"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("[embedding]"), std::string::npos) << text;
  EXPECT_NE(text.find("weights are never gathered on tp; give it replicate"), std::string::npos) << text;
}

TEST(TensorParallelErrors, OtherModelDimsAreRefused) {
  std::string text = refusal(on(small("gpt"), {2}, {"cp"}));
  EXPECT_NE(text.find("mesh dim cp has size 2: this version places models only on tp"), std::string::npos)
      << text;
}

}  // namespace
}  // namespace lockstep::tests
