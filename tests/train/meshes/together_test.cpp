// Neighbouring micro-batches that run as one: the bits of one after another, and what stays apart.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/tiny_run.h"

namespace lockstep::tests {
namespace {

struct Case {
  std::string name;
  TinyRun run;
};
std::vector<Case> cases() {
  TinyRun plain{.global = 24, .micro = 2, .steps = 2, .mask_every = 5};  // 12 micro-batches
  std::vector<Case> out{{"fp32", plain}};
  auto add = [&](const std::string& name, const auto& change) {
    out.push_back({name, plain});
    change(out.back().run);
  };
  auto in_bf16 = [](TinyRun& run) { run.compute = DType::bf16, run.options.precision = "bf16"; };
  add("llama bf16", [&](TinyRun& run) { in_bf16(run), run.model = "llama"; });
  add("dropout", [](TinyRun& run) { run.dropout = 0.1; });
  add("lanes of three", [](TinyRun& run) { run.lanes = 4; });
  add("small buckets", [](TinyRun& run) { run.options.bucket_bytes = 1; });
  add("free", [](TinyRun& run) { run.options.invariant = false; });
  add("eager", [](TinyRun& run) { run.options.backend = compiler::Backend::eager; });
  add("reference", [](TinyRun& run) { run.options.backend = compiler::Backend::reference; });
  add("recomputed", [](TinyRun& run) { run.options.memory_budget = compiler::kRecomputeFull; });
  add("float8", [&](TinyRun& run) {
    in_bf16(run);
    run.float8 = true, run.options.precision = "float8", run.context = 16, run.width = 32;
  });
  add("delayed float8", [&](TinyRun& run) {
    in_bf16(run);
    run.float8 = true, run.options.precision = "float8", run.context = 16, run.width = 32;
    run.float8_options.recipe = Float8Recipe::delayed, run.float8_options.history = 3;
  });
  return out;
}

// The micro-batches of each run of the body, in order.
std::vector<int64_t> runs_of(const compiler::StepProgram& program) {
  std::vector<int64_t> out;
  for (const auto& instr : program.instrs)
    if (const auto* run = std::get_if<compiler::RunBlock>(&instr.what);
        run && run->block == compiler::kBodyBlock && run->first == 0)
      out.push_back(run->micro_batches);
  return out;
}

class Together : public testing::TestWithParam<Case> {};

// 12 micro-batches: two to twelve of them at once, on one rank and on ranks that have as many or fewer.
TEST_P(Together, HasTheBitsOfOneAfterAnother) {
  const TinyRun& run = GetParam().run;
  const TinyResult apart = train_tiny(run);
  EXPECT_NE(apart.losses.front(), apart.losses.back()) << "training changes nothing";
  struct Way {
    Mesh mesh;
    int64_t together;
    std::vector<int64_t> runs;  // of rank 0
  };
  for (const Way& way : {Way{{{1}, {"dp_replicate"}}, 2, std::vector<int64_t>(6, 2)},
                         Way{{{1}, {"dp_replicate"}}, 12, {12}}, Way{{{1}, {"dp_shard"}}, 5, {4, 4, 4}},
                         Way{{{2}, {"dp_replicate"}}, 8, {6}}, Way{{{3}, {"dp_replicate"}}, 2, {2, 2}}}) {
    TinyRun other = run;
    if (!run.options.invariant && way.mesh.size() > 1) continue;
    other.mesh = way.mesh, other.options.together = way.together;
    other.observe = [&](const LiveMesh& mesh, const compiler::Step& step) {
      if (mesh.world->rank() == 0 && run.lanes == 0) EXPECT_EQ(runs_of(step.program()), way.runs);
    };
    expect_same(train_tiny(other), apart, str(way.together, " together on ", way.mesh.size(), " ranks"));
  }
}
INSTANTIATE_TEST_SUITE_P(Train, Together, testing::ValuesIn(cases()), [](const auto& info) {
  std::string name = info.param.name;
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
});

// A rank whose micro-batches have no such divisor, and what is of one micro-batch each, run one by one.
TEST(TogetherPlan, LeavesApartWhatIsOfOneEach) {
  struct Way {
    std::string name;
    Mesh mesh;
    int zero;
    int64_t global, budget;
    std::vector<int64_t> runs;
  };
  constexpr int64_t kNone = compiler::kRecomputeNothing;
  for (const Way& way : {Way{"lanes that no rank count divides", {{2}, {"dp_replicate"}}, 3, 10, kNone, {3}},
                         Way{"a prime number", {{1}, {"dp_replicate"}}, 3, 10, kNone, {1, 1, 1, 1, 1}},
                         Way{"zero 3", {{2}, {"dp_shard"}}, 3, 12, kNone, {1, 1, 1}},
                         Way{"zero 2", {{2}, {"dp_shard"}}, 2, 12, kNone, {1, 1, 1}},
                         Way{"zero 1", {{2}, {"dp_shard"}}, 1, 12, kNone, {3}},
                         Way{"tp", {{2}, {"tp"}}, 3, 6, kNone, {1, 1, 1}}}) {
    SCOPED_TRACE(way.name);
    TinyRun run{.mesh = way.mesh, .zero = way.zero, .global = way.global, .micro = 2, .steps = 1};
    const TinyResult apart = train_tiny(run);
    run.options.together = 4;
    run.observe = [&](const LiveMesh& mesh, const compiler::Step& step) {
      if (mesh.world->rank() == 0) EXPECT_EQ(runs_of(step.program()), way.runs);
    };
    expect_same(train_tiny(run), apart, way.name);
  }
}

// As many as fit: their arenas are within the budget, and nothing is computed again for them.
TEST(TogetherPlan, KeepsArenasWithinTheBudget) {
  TinyRun run{.global = 24, .micro = 2, .steps = 1};
  int64_t one = 0;
  run.observe = [&](const LiveMesh&, const compiler::Step& step) {
    one = step.program().blocks[compiler::kBodyBlock].own_bytes;
  };
  const TinyResult apart = train_tiny(run);
  run.options.together = 12;
  run.options.memory_budget = apart.arena + 4 * one;  // one more divides nothing
  run.observe = [&](const LiveMesh&, const compiler::Step& step) {
    EXPECT_EQ(runs_of(step.program()), std::vector<int64_t>(3, 4));
    EXPECT_EQ(step.plan().recompute.values, 0) << "enough for one";
  };
  expect_same(train_tiny(run), apart, "within a budget");
}

}  // namespace
}  // namespace lockstep::tests
