// bf16 compute with f32 masters: what is rounded where in the graph, backends against the reference, and the
// same bits on any ranks.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/base/error.h"
#include "core/ops/op.h"
#include "core/optim/adamw.h"
#include "tests/support/tiny_run.h"
#include "tests/support/tolerance.h"

namespace lockstep::tests {
namespace {

class Bf16 : public ::testing::TestWithParam<std::string> {
 protected:
  TinyRun run() const { return {.model = GetParam(), .compute = DType::bf16}; }
};

TEST_P(Bf16, RanksThreadsBucketsAndFusionChangeNoBit) {
  TinyRun base = run();
  base.mask_every = 7, base.dropout = 0.1;
  TinyResult one = train_tiny(base);
  EXPECT_NE(one.losses.front(), one.losses.back())
      << "training changes nothing: the comparison would be empty";
  for (int ranks : {2, 3}) {
    TinyRun many = base;
    many.ranks = ranks;
    expect_same(one, train_tiny(many), str(ranks, " ranks"));
  }
  TinyRun other = base;
  other.ranks = 2;
  other.options.threads = 3;
  other.options.bucket_bytes = 1;
  expect_same(one, train_tiny(other), "3 threads, buckets of one tensor");
  for (compiler::Backend backend :
       {compiler::Backend::native, compiler::Backend::eager}) {  // their certificates name other kernels
    TinyRun unfused = base;
    unfused.options.fusion = false;
    unfused.options.backend = backend;
    TinyResult same = train_tiny(unfused);
    EXPECT_EQ(one.losses, same.losses);
    EXPECT_EQ(one.norms, same.norms);
    EXPECT_EQ(one.hash, same.hash);
  }
}

TEST_P(Bf16, BackendsAgreeWithinTheTable) {
  TinyRun tiny = run();
  tiny.steps = 10, tiny.mask_every = 5;
  tiny.options.backend = compiler::Backend::reference;
  TinyResult reference = train_tiny(tiny);
  double allowed = lockstep::testing::tolerance(DType::bf16).relative, worst = 0;
  for (compiler::Backend backend : {compiler::Backend::native, compiler::Backend::eager}) {
    tiny.options.backend = backend;
    TinyResult other = train_tiny(tiny);
    for (size_t i = 0; i < reference.losses.size(); ++i) {
      EXPECT_LT(relative_difference(reference.losses[i], other.losses[i]), allowed)
          << "loss of step " << i + 1;
      EXPECT_LT(relative_difference(reference.norms[i], other.norms[i]), allowed) << "norm of step " << i + 1;
      worst = std::max(worst, relative_difference(reference.losses[i], other.losses[i]));
    }
  }
  std::cout << GetParam() << ": worst relative difference of a loss " << worst << "\n";
  tiny.options.backend = compiler::Backend::reference;
  tiny.ranks = 3;
  expect_same(reference, train_tiny(tiny), "reference on 3 ranks");
}

// Near fp32, and not fp32: the losses differ by what rounding explains.
TEST_P(Bf16, IsNearFp32) {
  TinyRun half = run(), full = half;
  full.compute = DType::f32;
  TinyResult a = train_tiny(half), b = train_tiny(full);
  EXPECT_NE(a.certificate, b.certificate);
  for (size_t i = 0; i < a.losses.size(); ++i) {
    EXPECT_LT(relative_difference(a.losses[i], b.losses[i]), 1e-2) << "loss of step " << i + 1;
    EXPECT_LT(relative_difference(a.norms[i], b.norms[i]), 5e-2) << "norm of step " << i + 1;
  }
  EXPECT_NE(a.losses, b.losses);
}

// The plan of a model of two blocks.
compiler::StepPlan plan_of(const std::string& kind, DType compute) {
  LiveMesh mesh = solo_mesh();
  State state(mesh, 7);
  Json options = {{"vocab", 29}, {"context", 12}, {"width", 24}, {"depth", 2}, {"heads", 4}};
  auto model = models::build(state.root(), kind, options);
  AdamW adamw(state / "optim", {.lr = constant(1e-2)});
  state.compute_dtype(compute);
  Shape shape{4, 12};
  return compiler::plan_step(state, mesh.words, {{"ids", DType::i32, shape}, {"targets", DType::i32, shape}},
                             {24, 4, 0},
                             [&](const std::vector<Tensor>& batch) {
                               Loss loss = cross_entropy(model.logits(batch[0], true), batch[1]);
                               adamw.update(grad(loss, state.parameters()));
                               return loss;
                             },
                             {});
}
size_t state_inputs(const Graph& graph) {
  return static_cast<size_t>(
      std::count_if(graph.inputs.begin(), graph.inputs.end(),
                    [](const GraphInput& input) { return input.kind == InputKind::state; }));
}

// Weights are rounded once per step and gathered rounded, before the bodies; the body reads no f32 weight,
// and the tail gathers none.
TEST_P(Bf16, WeightsAreRoundedAndGatheredInTheHead) {
  compiler::StepPlan plan = plan_of(GetParam(), DType::bf16);
  std::map<std::string, int> parameters;
  for (const auto& input : plan.phases.whole.inputs)
    if (input.kind == InputKind::state && !input.name.starts_with("optim.")) ++parameters[input.name];
  const Graph& whole = plan.phases.whole;
  size_t rounded = 0, gathered = 0;
  for (NodeId n : plan.phases.head) {
    const Node& node = whole.node(n);
    if (node.op == "convert") {
      EXPECT_EQ(whole[node.inputs[0]].dtype, DType::f32);
      EXPECT_EQ(whole[node.outputs[0]].dtype, DType::bf16);
      EXPECT_EQ(whole[node.outputs[0]].layout.on(0), Shard(0));
      ++rounded;
    }
    if (node.op == "all_gather_start")
      for (ValueId v : node.inputs) {
        EXPECT_EQ(whole[v].dtype, DType::bf16);
        ++gathered;
      }
  }
  EXPECT_EQ(rounded, parameters.size());
  EXPECT_EQ(gathered, parameters.size());
  for (const auto& step : plan.phases.tail)
    if (step.node.valid())
      if (const Node& node = whole.node(step.node); node.op == "all_gather_start")
        for (ValueId v : node.inputs)
          EXPECT_EQ(numel(whole[v].shape), 1) << "only the loss is gathered behind the body";
  EXPECT_EQ(state_inputs(plan.phases.seed.graph), 0u);
  EXPECT_EQ(state_inputs(plan.phases.body.graph), 0u);
  // In fp32 nothing of the state is worth moving.
  compiler::StepPlan full = plan_of(GetParam(), DType::f32);
  EXPECT_TRUE(full.phases.head.empty());
  EXPECT_EQ(state_inputs(full.phases.seed.graph), 0u);
  EXPECT_EQ(full.phases.seed.outputs.size(), 1u) << "1 / count";
  EXPECT_EQ(state_inputs(full.phases.body.graph), parameters.size());
}

// What is kept between kernels: activations, logits and a micro-batch's gradients of parameters in bf16; f32
// are statistics, the loss and sums over micro-batches.
TEST_P(Bf16, TheBodyKeepsNoLargeF32Value) {
  compiler::StepPlan plan = plan_of(GetParam(), DType::bf16);
  const Graph& body = plan.body;
  int contractions = 0;
  for (const Node& node : body.nodes) {
    bool contraction =
        node.op == "dot" || node.op == "linear" || op_row(node.op).library == Library::attention;
    contractions += contraction;
    if (contraction)
      for (ValueId v : {node.inputs[0], node.inputs[1], node.outputs[0]})
        EXPECT_EQ(body[v].dtype, DType::bf16) << node.op;
  }
  EXPECT_GT(contractions, 15);
  for (const Value& value : body.values) {
    bool rows = value.shape.size() >= 3 && value.shape[0] == 4 && value.shape[1] == 12;  // [B,T,...]
    EXPECT_FALSE(value.dtype == DType::f32 && rows) << shape_text(value.dtype, value.shape);
  }
  std::set<int> gradients;
  for (const auto& bucket : plan.phases.buckets) gradients.insert(bucket.begin(), bucket.end());
  int wide = 0;
  for (size_t o = 0; o < body.outputs.size(); ++o) {
    EXPECT_TRUE(gradients.count(static_cast<int>(o))) << o;
    const Value& value = body[body.outputs[o].value];
    if (numel(value.shape) == 1) {
      EXPECT_EQ(value.dtype, DType::f32) << "the loss";
    } else {
      wide += value.dtype == DType::f32;
      EXPECT_TRUE(value.dtype == DType::f32 || value.dtype == DType::bf16);
    }
  }
  EXPECT_EQ(wide, std::string(GetParam()) == "gpt")
      << "gradients leave as they were rounded; that of the tied embedding is a sum of two";
  for (const Node& node : plan.phases.whole.nodes)
    if (node.op == "lane_sum")
      EXPECT_EQ(plan.phases.whole[node.outputs[0]].dtype, DType::f32) << "sums over micro-batches are f32";
  for (const Node& node : plan.phases.whole.nodes)
    for (ValueId v : node.outputs)
      EXPECT_TRUE(op_row(node.op).kind != OpKind::update || plan.phases.whole[v].dtype == DType::f32)
          << node.op;
}

INSTANTIATE_TEST_SUITE_P(Kinds, Bf16, ::testing::Values("gpt", "llama"));

}  // namespace
}  // namespace lockstep::tests
