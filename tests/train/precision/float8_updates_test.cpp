// Weights of products in float8: what the updates that make them do for the step after.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "core/ops/op.h"
#include "core/optim/lion.h"
#include "core/optim/muon.h"
#include "tests/support/tiny_run.h"

namespace lockstep::tests {
namespace {

TinyRun run_of(Float8Recipe recipe, Mesh mesh = {{1}, {"dp_replicate"}}, int64_t steps = 5) {
  TinyRun run{.compute = DType::bf16, .float8 = true, .steps = steps, .context = 16, .width = 32};
  run.float8_options.recipe = recipe, run.float8_options.history = 3;
  run.options.precision = "float8";
  run.mesh = std::move(mesh);
  run.zero = 3;
  return run;
}

// How many tensors of the refresh's converts, and of the step's updates, are rounded to float8, and of how
// many the largest is found.
struct Rounded {
  int float8 = 0, largest = 0;
  bool operator==(const Rounded&) const = default;
};
Rounded rounded_by(const std::vector<compiler::Instr>& list) {
  Rounded out;
  for (const compiler::Instr& instr : list)
    if (const auto* update = std::get_if<compiler::UpdateTensors>(&instr.what))
      for (const auto& tensor : update->tensors)
        out.float8 += is_float8(tensor.copy_dtype), out.largest += tensor.largest.there();
  return out;
}

class Float8Updates : public testing::TestWithParam<Float8Recipe> {
 protected:
  bool delayed() const { return GetParam() == Float8Recipe::delayed; }
};

// The update finds the largest magnitude of a weight, and writes it in float8 where it knows the scale: no
// pass over weights in 16 bits finds it, and by delayed scales nothing reads them so.
TEST_P(Float8Updates, FindTheLargestAndRoundByKnownScales) {
  for (const auto& mesh :
       {Mesh{{1}, {"dp_replicate"}}, Mesh{{2}, {"dp_shard"}}, Mesh{{1, 2}, {"dp_replicate", "dp_shard"}}}) {
    SCOPED_TRACE(text(mesh));
    TinyRun run = run_of(GetParam(), mesh, 1);
    run.observe = [&](const LiveMesh&, const compiler::Step& step) {
      const compiler::StepPlan& plan = step.plan();
      const bool casts = !delayed() && mesh.size() > 1;
      EXPECT_EQ(plan.phases.own_rows.updated.size(), 8u) << "four layers in two blocks";
      EXPECT_TRUE(plan.maxima.nodes.empty());
      EXPECT_EQ(plan.cast.nodes.empty(), !casts);
      for (const auto& input : plan.seed.inputs)
        if (plan.seed[input.value].shape.size() == 2 && input.kind != InputKind::state)
          EXPECT_EQ(is_float8(plan.seed[input.value].dtype), delayed() || casts) << input.name;
      for (const Node& node : plan.seed.nodes)
        if (node.op == ops::fused)
          for (ValueId v : node.inputs) EXPECT_LT(numel(plan.seed[v].shape), 32 * 32) << node.at.text();
      const Rounded all{delayed() ? 8 : 0, 8};
      EXPECT_EQ(rounded_by(step.program().instrs), all);
      EXPECT_EQ(rounded_by(step.program().refresh), all) << "before the first step";
    };
    train_tiny(run);
  }
}

// On three ranks most weights lie unevenly, and are looked through anew in each step. A step that counts for
// nothing leaves weights as they were, by the scales that they had.
TEST_P(Float8Updates, HaveTheBitsOfPassesOverWeights) {
  for (const std::set<int64_t>& blocked : {std::set<int64_t>{}, {2, 4}}) {
    TinyRun one = run_of(GetParam()), two = run_of(GetParam(), {{2}, {"dp_shard"}}),
            three = run_of(GetParam(), {{3}, {"dp_shard"}});
    one.blocked = two.blocked = three.blocked = blocked;
    three.observe = [](const LiveMesh&, const compiler::Step& step) {
      EXPECT_EQ(step.plan().phases.own_rows.updated.size(), 2u) << "96 rows of qkv";
    };
    const TinyResult alone = train_tiny(one);
    expect_same(train_tiny(two), alone, "two ranks");
    expect_same(train_tiny(three), alone, "three ranks");
  }
}

// Whatever arithmetic an update is of: bodies of its own, several rounds, another rule for each parameter.
TEST_P(Float8Updates, AreThoseOfAnyOptimizer) {
  const std::map<std::string, std::function<std::unique_ptr<Optimizer>(State&)>> optimizers{
      {"muon", [](State& state) { return std::make_unique<Muon>(state / "optim", MuonOptions{}); }},
      {"lion", [](State& state) { return std::make_unique<Lion>(state / "optim", LionOptions{}); }}};
  for (const auto& [name, make] : optimizers) {
    SCOPED_TRACE(name);
    TinyRun one = run_of(GetParam(), {{1}, {"dp_replicate"}}, 3),
            three = run_of(GetParam(), {{3}, {"dp_shard"}}, 3);
    one.optimizer = three.optimizer = make;
    one.observe = [](const LiveMesh&, const compiler::Step& step) {
      EXPECT_EQ(step.plan().phases.own_rows.updated.size(), 8u);
    };
    expect_same(train_tiny(three), train_tiny(one), "three ranks");
  }
}

// Weights that nothing trains are looked through by kernels of their own, beside those that updates know.
TEST_P(Float8Updates, StandBesideFrozenWeights) {
  TinyRun one = run_of(GetParam(), {{1}, {"dp_replicate"}}, 3),
          two = run_of(GetParam(), {{2}, {"dp_shard"}}, 3);
  one.optimizer = two.optimizer = [](State& state) {
    state.freeze({"blocks.0.**"});
    return std::make_unique<Lion>(state / "optim", LionOptions{});
  };
  two.observe = [](const LiveMesh&, const compiler::Step& step) {
    EXPECT_EQ(step.plan().phases.own_rows.updated.size(), 4u);
    EXPECT_EQ(step.plan().phases.own_rows.maxima.outputs.size(), 4u);
  };
  expect_same(train_tiny(two), train_tiny(one), "two ranks");
}

// Where moments lie on the host, a weight is updated in pieces, and all of them find its largest.
TEST_P(Float8Updates, GoPieceByPiece) {
  TinyRun away = run_of(GetParam());
  away.options.offload_moments = true;
  away.observe = [](const LiveMesh&, const compiler::Step& step) {
    EXPECT_GT(rounded_by(step.program().instrs).largest, 8);
  };
  expect_same_bits(train_tiny(away), train_tiny(run_of(GetParam())), "moments on the host");
}

INSTANTIATE_TEST_SUITE_P(By, Float8Updates, testing::Values(Float8Recipe::tensorwise, Float8Recipe::delayed),
                         [](const auto& info) {
                           return info.param == Float8Recipe::delayed ? "delayed" : "tensorwise";
                         });

}  // namespace
}  // namespace lockstep::tests
