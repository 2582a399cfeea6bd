// compile.memory_budget: the same bits whatever is recomputed, an arena within the budget to the byte,
// and the words of a refusal.
#include <gtest/gtest.h>

#include "compiler/compile/memory_budget.h"
#include "compiler/runtime/certificate.h"
#include "core/base/error.h"
#include "core/optim/adamw.h"
#include "tests/support/tiny_run.h"

namespace lockstep::tests {

using namespace compiler;

namespace {

TinyRun with(TinyRun run, int64_t budget) {
  run.options.memory_budget = budget;
  return run;
}

class Remat : public testing::TestWithParam<std::string> {};

// Native, fused and not; dropout; bf16; ranks: none, full and a budget in between, 5 steps each.
TEST_P(Remat, ChangesNoBit) {
  const TinyRun plain{.model = GetParam(), .steps = 5, .mask_every = 7, .options = {}};
  TinyRun unfused = plain, dropout = plain, ranks = plain, halves = plain;
  unfused.options.fusion = false;
  dropout.dropout = 0.1;
  ranks.ranks = 3;
  ranks.dropout = 0.2;
  halves.compute = DType::bf16;
  halves.options.precision = "bf16";
  const std::pair<const char*, TinyRun> cases[] = {
      {"plain", plain}, {"unfused", unfused}, {"dropout", dropout}, {"3 ranks", ranks}, {"bf16", halves}};
  for (const auto& [what, run] : cases) {
    const TinyResult none = train_tiny(run), full = train_tiny(with(run, kRecomputeFull));
    expect_same(none, full, str(what, ", full"));
    EXPECT_GT(full.recompute.values, 0) << what;
    EXPECT_GT(full.recompute.extra_flops, 0) << what;
    EXPECT_LT(full.recompute.extra_flops, 0.34) << what << ": more than one forward pass";
    EXPECT_EQ(full.recompute.arena, full.arena) << what;
    EXPECT_EQ(full.recompute.arena_without, none.arena) << what;
    EXPECT_LT(full.arena, none.arena) << what;
    const int64_t budget = (none.arena + full.arena) / 2;
    const TinyResult half = train_tiny(with(run, budget));
    expect_same(none, half, str(what, ", budget"));
    EXPECT_LE(half.arena, budget) << what;
    EXPECT_GT(half.recompute.values, 0) << what;
    EXPECT_LT(half.recompute.extra_flops, full.recompute.extra_flops) << what;
  }
  EXPECT_NE(train_tiny(plain).losses.front(), train_tiny(plain).losses.back())
      << "training changes nothing: the comparison would be empty";
}

// Backends that share no buffers: recomputing saves nothing there and gives the same bits.
TEST_P(Remat, ChangesNoBitOfOtherBackends) {
  for (Backend backend : {Backend::reference, Backend::eager}) {
    TinyRun run{.model = GetParam(), .steps = 3, .dropout = 0.1, .options = {}};
    run.options.backend = backend;
    const TinyResult none = train_tiny(run), full = train_tiny(with(run, kRecomputeFull));
    expect_same(none, full, str("backend ", static_cast<int>(backend)));
    EXPECT_GT(full.recompute.values, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, Remat, testing::Values("gpt", "llama"));

// Six blocks with a long context, planned: nothing is compiled.
class Budget : public testing::TestWithParam<std::string> {
 protected:
  StepPlan plan(int64_t budget, Backend backend = Backend::native) const {
    LiveMesh mesh = solo_mesh();
    State state(mesh, 1);
    Json sizes = {{"vocab", 64}, {"context", 512}, {"width", 64}, {"depth", 6}, {"heads", 4}};
    if (GetParam() == "llama") sizes.update({{"kv_heads", 2}, {"hidden", 176}});
    auto model = models::build(state.root(), GetParam(), sizes);
    AdamW adamw(state / "optim", {});
    CompileOptions options;
    options.memory_budget = budget;
    options.backend = backend;
    Shape shape{2, 512};
    return plan_step(
        state, mesh.words, {{"ids", DType::i32, shape}, {"targets", DType::i32, shape}}, {8, 2, 0},
        [&](const std::vector<Tensor>& batch) {
          Loss loss = cross_entropy(model.logits(batch[0], true), batch[1]);
          adamw.update(grad(loss, state.parameters()));
          return loss;
        },
        options);
  }
  static int64_t arena(const StepPlan& plan) { return plan_blocks(plan).arena_bytes(); }
};

TEST_P(Budget, FullIsAFractionAndABudgetIsKept) {
  const StepPlan none = plan(kRecomputeNothing), full = plan(kRecomputeFull);
  EXPECT_EQ(none.recompute.values, 0);
  EXPECT_EQ(text(none.recompute), "nothing");
  const int64_t most = arena(none), least = arena(full);
  EXPECT_EQ(full.recompute.arena, least);
  EXPECT_EQ(full.recompute.arena_without, most);
  EXPECT_LT(least * 3, most) << least << " of " << most << " bytes";
  double cost = full.recompute.extra_flops;
  EXPECT_LT(cost, 0.34) << "more than one forward pass";
  EXPECT_GT(cost, 0.1);
  // From tight to wide: each kept, each no dearer than the one before.
  for (int64_t budget : {least, least + (most - least) / 4, (least + most) / 2, most - 1, most, most + 1}) {
    const StepPlan made = plan(budget);
    EXPECT_LE(arena(made), budget);
    EXPECT_EQ(made.recompute.arena, arena(made));
    EXPECT_EQ(made.recompute.values == 0, budget >= most) << budget;
    EXPECT_LE(made.recompute.extra_flops, cost) << budget;
    cost = made.recompute.extra_flops;
    EXPECT_EQ(certificate_of(made, plan_blocks(made), 1), certificate_of(none, plan_blocks(none), 1));
  }
}

TEST_P(Budget, RefusalsNameTheSmallestArena) {
  const int64_t most = arena(plan(kRecomputeNothing)), least = arena(plan(kRecomputeFull));
  auto said = [&](int64_t budget, Backend backend = Backend::native) -> std::string {
    try {
      plan(budget, backend);
    } catch (const UserError& error) { return error.what(); }
    return "";
  };
  auto bytes = [](int64_t n) { return str(n, " bytes (", bytes_text(static_cast<double>(n)), ")"); };
  EXPECT_EQ(said(least - 1),
            str("compile.memory_budget ", bytes(least - 1), ": the arena of the step needs at least ",
                bytes(least), " even with everything recomputed that makes it smaller (", bytes(most),
                " without); give that, or a smaller batch.micro or model.context"));
  EXPECT_EQ(said(least), "");
  EXPECT_EQ(said(-5), "compile.memory_budget is -5 bytes; give none, full, or at least 1 byte");
  // A buffer for each value: recomputing cannot help, and the number says so.
  const int64_t eager = arena(plan(kRecomputeNothing, Backend::eager));
  const std::string refusal = said(eager - 1, Backend::eager);
  EXPECT_NE(refusal.find(str("needs at least ", bytes(eager))), std::string::npos) << refusal;
}

INSTANTIATE_TEST_SUITE_P(Kinds, Budget, testing::Values("gpt", "llama"));

TEST(Budget, Words) {
  EXPECT_EQ(parse_memory_budget("none"), kRecomputeNothing);
  EXPECT_EQ(parse_memory_budget("full"), kRecomputeFull);
  EXPECT_EQ(parse_memory_budget("2GiB"), int64_t{2} << 30);
  EXPECT_EQ(parse_memory_budget("1.5 MB"), 1500000);
  for (const char* bad : {"", "some", "0", "-1", "2 apples"}) {
    try {
      parse_memory_budget(bad);
      ADD_FAILURE() << bad;
    } catch (const UserError& error) {
      EXPECT_EQ(error.what(), str("compile.memory_budget is \"", bad,
                                  "\"; give none, full, or bytes, as in 2GiB or 1.5GB"));
    }
  }
  EXPECT_EQ(text(Recompute{12, 0.2071, 1 << 20, 3 << 20}),
            "12 values, +20.7 % of the step's flops, arena 1.00 MiB instead of 3.00 MiB");
}

}  // namespace
}  // namespace lockstep::tests
