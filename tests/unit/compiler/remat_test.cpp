// Rematerialisation on joint graphs: what is chosen, where copies stand, and that they are copies.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "compiler/lower/simplify.h"
#include "compiler/pipeline.h"
#include "compiler/remat/choices.h"
#include "compiler/remat/rematerialize.h"
#include "compiler/trace/trace.h"
#include "core/base/error.h"
#include "core/base/philox.h"
#include "core/ir/walk.h"
#include "core/models/family.h"
#include "core/ops/op.h"
#include "core/optim/adamw.h"

namespace lockstep {

using namespace compiler;

namespace {

PassContext context() {
  return {Mesh{{1}, {"dp_replicate"}}, [](const std::string&) { return Layout{}; }, {}};
}

// The joint graph of a small model as `rematerialize` gets it.
Graph joint_graph(const std::string& kind, bool training = true, double dropout = 0.1) {
  State state(solo_mesh(), 1);
  Json options = {{"vocab", 31}, {"context", 8}, {"width", 16},
                  {"depth", 3},  {"heads", 2},   {"dropout", dropout}};
  if (kind == "llama") options.update({{"kv_heads", 1}, {"hidden", 24}});
  auto model = models::build(state.root(), kind, options);
  AdamW adamw(state / "optim", {});
  Shape shape{2, 8};
  Graph graph = trace({{"ids", DType::i32, shape}, {"targets", DType::i32, shape}},
                      [&](const std::vector<Tensor>& batch) {
                        Loss loss = cross_entropy(model.logits(batch[0], training), batch[1]);
                        if (training) adamw.update(grad(loss, state.parameters()));
                        return loss;
                      });
  auto rows = step_passes();
  size_t before = 0;
  while (std::string(rows[before].name) != "rematerialize") ++before;
  return run_passes(std::move(graph), rows.first(before), context());
}

Graph remade(const Graph& joint, const std::vector<ValueId>& recomputed) {
  PassContext with = context();
  with.recomputed = recomputed;
  Graph made = rematerialize(joint, with);
  verify(made, "rematerialize");
  return made;
}

bool is_barrier(const Node& node) { return node.attrs.has("again"); }
std::map<std::string, int> ops_of(const Graph& graph) {
  std::map<std::string, int> count;
  for (const Node& node : graph.nodes)
    if (!is_barrier(node)) ++count[std::string(node.op.name())];
  return count;
}
Graph without_barriers(const Graph& graph) {
  Rewriter rewriter(graph);
  for (const Node& node : graph.nodes)
    if (is_barrier(node))
      rewriter.map(node.outputs[0], rewriter.at(node.inputs[0]));
    else
      rewriter.copy(node);
  return rewriter.finish();
}

class RematModels : public testing::TestWithParam<std::string> {};

TEST_P(RematModels, ChoicesCostMoreAndMoreAndTheFrontierFalls) {
  const Graph joint = joint_graph(GetParam());
  const RematChoices choices = remat_choices(joint);
  ASSERT_GT(choices.order.size(), 10u);
  EXPECT_EQ(std::set<ValueId>(choices.order.begin(), choices.order.end()).size(), choices.order.size());
  ASSERT_EQ(choices.peak.size(), choices.order.size() + 1);
  for (size_t k = 1; k < choices.peak.size(); ++k) {
    EXPECT_GE(choices.cost[k], choices.cost[k - 1]);
    EXPECT_GE(choices.values[k], choices.values[k - 1]);
  }
  EXPECT_EQ(choices.frontier.front(), 0u);
  for (size_t i = 1; i < choices.frontier.size(); ++i)
    EXPECT_LT(choices.peak[choices.frontier[i]], choices.peak[choices.frontier[i - 1]]);
  EXPECT_LT(choices.peak[choices.frontier.back()] * 2, choices.peak[0]);
  EXPECT_LT(choices.cost.back(), choices.step_cost / 2);
  // Contractions and attention are dearer than norms and activations: none is given up before them.
  const OpId first = joint.producer(choices.order[0]).op;
  EXPECT_TRUE(first != "linear" && first != "sdpa") << first;
}

TEST_P(RematModels, CopiesAreCopiesOnceEachRightBeforeTheirReader) {
  const Graph joint = joint_graph(GetParam());
  const RematChoices choices = remat_choices(joint);
  const Joint roles = joint_of(joint);
  auto before = ops_of(joint);
  std::map<std::string, int> forward;
  for (NodeId n : joint.node_ids())
    if (roles.roles[n] == JointRole::forward) ++forward[std::string(joint.node(n).op.name())];
  EXPECT_EQ(structure_hash(remade(joint, {})), structure_hash(joint));
  for (size_t level : {size_t{1}, choices.order.size() / 2, choices.order.size()}) {
    const Graph made =
        remade(joint, {choices.order.begin(), choices.order.begin() + static_cast<std::ptrdiff_t>(level)});
    int64_t copies = 0;
    for (const auto& [op, count] : ops_of(made)) {
      EXPECT_GE(count, before[op]) << op;
      EXPECT_LE(count, before[op] + forward[op]) << op << " is repeated more than once";
      if (op_row(intern(op)).kind != OpKind::view) copies += count - before[op];
    }
    EXPECT_EQ(copies, choices.values[level]) << "level " << level;
    // Later passes keep them apart; without barriers they are the nodes that were there before.
    EXPECT_EQ(simplify(made, context()).nodes.size(), made.nodes.size());
    EXPECT_EQ(structure_hash(simplify(without_barriers(made), context())), structure_hash(joint))
        << "level " << level;
    // From the first barrier on, what a copy makes is read by the next node that is no copy, or by a copy:
    // none is made early.
    size_t first = made.nodes.size();
    for (size_t n = 0; n < made.nodes.size(); ++n)
      if (is_barrier(made.nodes[n]) && numel(made[made.nodes[n].outputs[0]].shape) > 1)
        first = std::min(first, n);
    const auto roles_after = joint_of(made);
    size_t last_forward = 0;
    for (size_t n = 0; n < first; ++n)
      if (roles_after.roles[NodeId(n)] == JointRole::forward) last_forward = n;
    bool backward_between = false;
    for (size_t n = last_forward + 1; n < first; ++n)
      backward_between = backward_between || roles_after.roles[NodeId(n)] == JointRole::backward;
    EXPECT_TRUE(backward_between) << "copies begin before the backward pass does";
  }
}

// Any saved values may be given up, not only those that the greedy order chooses.
TEST_P(RematModels, AnyChoiceIsTheSameComputation) {
  const Graph joint = joint_graph(GetParam());
  const Joint roles = joint_of(joint);
  const std::string hash = structure_hash(joint);
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    std::vector<ValueId> given_up;
    for (ValueId v : roles.saved)
      if (philox::uniform(philox::bits(seed, 0, 0, v.index())) * 41 < static_cast<float>(seed))
        given_up.push_back(v);
    const Graph made = remade(joint, given_up);
    EXPECT_GE(made.nodes.size(), joint.nodes.size() + given_up.size()) << "seed " << seed;
    EXPECT_EQ(simplify(made, context()).nodes.size(), made.nodes.size()) << "seed " << seed;
    EXPECT_EQ(structure_hash(simplify(without_barriers(made), context())), hash) << "seed " << seed;
  }
}

TEST_P(RematModels, AnEvaluationHasNothingToGiveUp) {
  const Graph joint = joint_graph(GetParam(), false);
  const RematChoices choices = remat_choices(joint);
  EXPECT_TRUE(choices.order.empty());
  EXPECT_EQ(choices.frontier, std::vector<size_t>{0});
}

INSTANTIATE_TEST_SUITE_P(Kinds, RematModels, testing::Values("gpt", "llama"));

// x -> (all_gather ->) exp -> tanh -> exp -> sum; the backward reads what exp and tanh gave.
Graph chain(bool collective) {
  Graph g;
  const Shape shape{4, 8};
  using Types = std::vector<std::pair<DType, Shape>>;
  const Types wide{{DType::f32, shape}}, scalar{{DType::f32, Shape{}}};
  ValueId x = g.add_input(InputKind::batch, "x", DType::f32, shape);
  ValueId first = collective ? g.append("wait", g.append("all_gather_start", {x}, {}, wide), {}, wide)[0]
                             : g.append("exp", {x}, {}, wide)[0];
  ValueId second = g.append("tanh", {first}, {}, wide)[0];
  ValueId third = g.append("exp", {second}, {}, wide)[0];
  ValueId sum = g.append("sum", {third}, {{"dims", Attr(std::vector<int64_t>{0, 1})}}, scalar)[0];
  ValueId total = g.append("sum_lanes", {sum}, {}, scalar)[0];
  ValueId seed = g.append("broadcast", {total},
                          {{"shape", Attr(shape)}, {"dims", Attr(std::vector<int64_t>{})}}, wide)[0];
  ValueId down = g.append("mul", {seed, third}, {}, wide)[0];
  for (int i = 0; i < 3; ++i) down = g.append("neg", {down}, {}, wide)[0];
  ValueId gradient = g.append("mul", {down, second}, {}, wide)[0];
  g.add_output(OutputKind::value, "gradient", g.append("sum_lanes", {gradient}, {}, wide)[0]);
  return g;
}

TEST(RematGraphs, ACollectiveIsNeverRepeated) {
  auto repeatable = [](const Graph& graph) {
    std::set<std::string> ops;
    const Joint joint = joint_of(graph);
    for (NodeId n : graph.node_ids())
      if (joint.may_repeat[n]) ops.emplace(graph.node(n).op.name());
    return ops;
  };
  EXPECT_EQ(repeatable(chain(true)), (std::set<std::string>{"tanh", "exp", "sum"}));
  // `second` waits while the peak passes. It can be computed from x, but not through a collective whose
  // result is not kept.
  const Graph plain = chain(false), gathered = chain(true);
  EXPECT_EQ(remat_choices(plain).order.size(), 1u);
  EXPECT_TRUE(remat_choices(gathered).order.empty());
  const Graph made = remade(plain, remat_choices(plain).order);
  EXPECT_EQ(ops_of(made)["tanh"], 2);
  EXPECT_EQ(ops_of(made)["exp"], 3);
  PassContext with = context();
  with.recomputed = {gathered.nodes[2].outputs[0]};
  EXPECT_THROW((void)rematerialize(gathered, with), InternalError);
}

}  // namespace
}  // namespace lockstep
