// core/optim: exact schedules and host scalars, the nodes of an update, and a user's program as the design
// shows it.
#include "core/optim/adamw.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/base/error.h"
#include "core/ir/parse.h"
#include "core/ir/print.h"
#include "core/ir/walk.h"
#include "core/optim/clip.h"
#include "core/optim/sgd.h"
#include "tests/support/nn_fixture.h"

using namespace lockstep;
using lockstep::testing::fqns;
using lockstep::testing::mesh_of;
using lockstep::testing::Tracing;

namespace {
// A block and a model of a user's own, as in the design.
struct Block {
  LayerNorm norm1, norm2;
  Attention attn;
  Linear up, down;
  Block(Scope at, int width, int heads)
      : norm1(at / "norm1", width),
        norm2(at / "norm2", width),
        attn(at / "attn", width, heads),
        up(at / "mlp" / "up", width, 4 * width),
        down(at / "mlp" / "down", 4 * width, width) {}
  Tensor operator()(Tensor x) const {
    x = x + attn(norm1(x));
    return x + down(gelu(up(norm2(x))));
  }
};
struct Gpt {
  Embedding token, position;
  Stack<Block> blocks;
  LayerNorm norm;
  Gpt(Scope at, int vocab, int context, int width, int depth, int heads)
      : token(at / "token", vocab, width),
        position(at / "position", context, width),
        blocks(at / "blocks", depth, width, heads),
        norm(at / "norm", width) {}
  Tensor operator()(Tensor ids) const {
    return token.logits(norm(blocks(token(ids) + position(iota_like(ids, 1)))));
  }
};

// A loss over one linear layer with a bias.
struct OneLayer {
  State state{solo_mesh(), 1};
  Linear head{state / "head", 4, 3};
  Loss loss(const Tracing& tracing) {
    return cross_entropy(head(convert(tracing.ids, DType::f32)), slice_ids(tracing));
  }
  static Tensor slice_ids(const Tracing& tracing) {
    return reshape(slice(tracing.targets, 1, 0, 1), {tracing.ids.size(0)});
  }
};

std::vector<const Node*> nodes_of(const Graph& graph, OpId op) {
  std::vector<const Node*> out;
  for (const Node& node : graph.nodes)
    if (node.op == op) out.push_back(&node);
  return out;
}
}  // namespace

TEST(Schedules, ExactValues) {
  EXPECT_EQ(constant(0.5).at(1), 0.5);
  EXPECT_EQ(constant(0.5).at(1000000), 0.5);
  EXPECT_EQ(Schedule(0.5).at(3), constant(0.5).at(3));
  EXPECT_EQ(constant(0.5, 4).at(1), 0.125);
  EXPECT_EQ(constant(0.5, 4).at(4), 0.5);
  EXPECT_EQ(constant(0.5, 4).at(5), 0.5);

  Schedule cosine = warmup_cosine(0.5, 4, 12, 0.25);
  EXPECT_EQ(cosine.at(1), 0.125);
  EXPECT_EQ(cosine.at(2), 0.25);
  EXPECT_EQ(cosine.at(4), 0.5);
  EXPECT_NEAR(cosine.at(6), 0.5 * (0.25 + 0.75 * (1 + std::sqrt(0.5)) / 2),
              1e-15);                                         // a quarter of the way: cos(pi/4)
  EXPECT_NEAR(cosine.at(8), 0.5 * (0.25 + 0.75 / 2), 1e-15);  // half way
  EXPECT_EQ(cosine.at(12), 0.125);                            // exactly lr * min_ratio
  EXPECT_EQ(cosine.at(13), 0.125);

  Schedule linear = warmup_linear(1.0, 0, 4, 0.5);
  EXPECT_EQ(linear.at(1), 0.875);
  EXPECT_EQ(linear.at(2), 0.75);
  EXPECT_EQ(linear.at(3), 0.625);
  EXPECT_EQ(linear.at(4), 0.5);
  EXPECT_EQ(warmup_linear(1.0, 2, 4).at(4), 0.0);
}

TEST(Schedules, RunsNoLongerThanTheirWarmUp) {
  EXPECT_EQ(warmup_cosine(1.0, 8, 4).at(4), 0.5);
  EXPECT_EQ(warmup_cosine(1.0, 4, 4, 0.1).at(4), 1.0);
  EXPECT_EQ(warmup_cosine(1.0, 4, 4, 0.25).at(5), 0.25);
  EXPECT_EQ(warmup_cosine(1.0, 0, 1, 0.25).at(1), 0.25);
  EXPECT_THROW(constant(1.0).at(0), InternalError);
}

TEST(Schedules, FallEveryStep) {
  for (Schedule schedule : {warmup_cosine(3e-3, 20, 600, 0.1), warmup_linear(3e-3, 20, 600, 0.1)}) {
    for (int64_t t = 2; t <= 20; ++t) EXPECT_GT(schedule.at(t), schedule.at(t - 1));
    for (int64_t t = 21; t <= 600; ++t) EXPECT_LT(schedule.at(t), schedule.at(t - 1));
  }
}

TEST(AdamW, RecordsMomentsLikeTheirParameters) {
  State state(solo_mesh(), 1);
  Linear a(state / "a", 4, 3);
  (state / "a").frozen("mask", {3}, init::ones());
  AdamW adamw(state / "optim");
  EXPECT_EQ(fqns(state), (std::vector<std::string>{"a.weight", "a.bias", "a.mask", "optim.a.weight.exp_avg",
                                                   "optim.a.weight.exp_avg_sq", "optim.a.bias.exp_avg",
                                                   "optim.a.bias.exp_avg_sq"}));
  EXPECT_EQ(state.find_spec("optim.a.weight.exp_avg_sq").shape(), (Shape{3, 4}));
  EXPECT_EQ(state.find_spec("optim.a.weight.exp_avg_sq").spec().init, init::zeros());
  EXPECT_EQ(state.find_spec("optim.a.bias.exp_avg").spec().role, Role::moment);
}

TEST(AdamW, HostScalars) {
  State state(solo_mesh(), 1);
  Linear a(state / "a", 4, 3);
  AdamW adamw(state / "optim", {.lr = constant(0.5, 2), .betas = {0.9, 0.0}});
  auto first = adamw.scalars(1), third = adamw.scalars(3);
  EXPECT_EQ(first.size(), 3u);
  EXPECT_EQ(first.at("optim.lr"), 0.25);
  EXPECT_EQ(first.at("optim.bias1"), 1.0 - 0.9);
  EXPECT_EQ(first.at("optim.bias2"), 1.0);
  EXPECT_EQ(third.at("optim.lr"), 0.5);
  EXPECT_NEAR(third.at("optim.bias1"), 1.0 - 0.729, 1e-15);
  EXPECT_EQ(state.scalars(3), third);  // the launcher asks the state
}

TEST(AdamW, WritesOneNodePerParameter) {
  OneLayer one;
  AdamW adamw(one.state / "optim",
              {.lr = 1e-3, .betas = {0.9, 0.95}, .eps = 1e-8, .weight_decay = 0.1, .clip = 2.0});
  Tracing tracing(2, 4);
  int line = __LINE__ + 1;
  adamw.update(grad(one.loss(tracing), one.state.parameters()));
  const Graph& graph = tracing.graph();
  verify(graph, "trace");
  std::string printed = print(prune(graph));
  EXPECT_EQ(print(parse_graph(printed)), printed);

  auto grads = nodes_of(graph, "grad"), norms = nodes_of(graph, "global_norm"),
       clips = nodes_of(graph, "clip_scale"), updates = nodes_of(graph, "adamw");
  ASSERT_EQ(grads.size(), 1u);
  EXPECT_EQ(grads[0]->inputs.size(), 4u);  // sum, count, weight, bias
  ASSERT_EQ(norms.size(), 1u);
  EXPECT_EQ(norms[0]->inputs, grads[0]->outputs);
  ASSERT_EQ(clips.size(), 1u);
  EXPECT_EQ(clips[0]->attrs.number("max"), 2.0);
  ASSERT_EQ(updates.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    const Node& node = *updates[i];
    std::string fqn = i ? "head.bias" : "head.weight", moment = "optim." + fqn + ".exp_avg";
    EXPECT_EQ(node.inputs,
              (std::vector<ValueId>{graph.find_input(fqn), grads[0]->outputs[i], graph.find_input(moment),
                                    graph.find_input(moment + "_sq"), graph.find_input("optim.lr"),
                                    graph.find_input("optim.bias1"), graph.find_input("optim.bias2"),
                                    clips[0]->outputs[0]}));
    EXPECT_EQ(node.attrs.number("weight_decay"), i ? 0.0 : 0.1);  // the bias has one dim
    EXPECT_EQ(node.attrs.number("beta1"), 0.9);
    EXPECT_EQ(node.attrs.number("beta2"), 0.95);
    EXPECT_EQ(node.attrs.number("eps"), 1e-8);
    EXPECT_EQ(node.at.text(), str("optim_test.cpp:", line));
    EXPECT_EQ(graph.find_output(fqn), node.outputs[0]);
    EXPECT_EQ(graph.find_output(moment), node.outputs[1]);
    EXPECT_EQ(graph.find_output(moment + "_sq"), node.outputs[2]);
  }
  EXPECT_EQ(graph.find_output("grad_norm"), norms[0]->outputs[0]);
  EXPECT_EQ(graph.outputs.size(), 7u);
}

// The arithmetic of the rule and of the rounding is traced once for all that decay, and once for the rest.
TEST(Optimizers, RoundedMomentsAreOneNodePerParameter) {
  State state(solo_mesh(), 1);
  const Linear first(state / "first", 4, 4), second(state / "second", 4, 3);
  AdamW adamw(state / "optim", {.weight_decay = 0.1, .moments = DType::bf16});
  Tracing tracing(2, 4);
  const int line = __LINE__ + 1;
  adamw.update(
      grad(cross_entropy(second(first(convert(tracing.ids, DType::f32))), OneLayer::slice_ids(tracing)),
           state.parameters()));
  const Graph& graph = tracing.graph();
  verify(graph, "trace");
  const auto updates = nodes_of(graph, "update");
  ASSERT_EQ(updates.size(), 4u);
  EXPECT_EQ(tracing.count("adamw"), 0);
  const std::vector<std::string> names = {"first.weight", "first.bias", "second.weight", "second.bias"};
  for (size_t i = 0; i < 4; ++i) {
    const Node& node = *updates[i];
    const std::string moment = "optim." + names[i] + ".exp_avg";
    ASSERT_EQ(node.inputs.size(), 9u);
    EXPECT_EQ((std::vector<ValueId>{node.inputs.begin(), node.inputs.begin() + 3}),
              (std::vector<ValueId>{graph.find_input(names[i]), graph.find_input(moment),
                                    graph.find_input(moment + "_sq")}));
    EXPECT_EQ(node.attrs.list("replaces"), (std::vector<int64_t>{0, 1, 2}));
    EXPECT_EQ(graph[node.outputs[1]].dtype, DType::bf16);
    EXPECT_EQ(graph.find_output(moment), node.outputs[1]);
    EXPECT_EQ(node.at.text(), str("optim_test.cpp:", line));
    EXPECT_EQ(node.body, updates[i % 2]->body) << names[i];
  }
  EXPECT_NE(updates[0]->body, updates[1]->body);
}

TEST(AdamW, WithoutClippingTheNormIsStillReported) {
  OneLayer one;
  AdamW adamw(one.state / "optim", {.clip = 0});
  Tracing tracing(2, 4);
  adamw.update(grad(one.loss(tracing), one.state.parameters()));
  EXPECT_EQ(tracing.count("clip_scale"), 0);
  EXPECT_NE(tracing.graph().find_output("grad_norm"), kNoValue);
  const Node& update = *nodes_of(tracing.graph(), "adamw")[0];
  const Graph& graph = tracing.graph();
  const Node& scale = graph.producer(update.inputs.back());
  EXPECT_EQ(scale.op, ops::full);
  EXPECT_EQ(scale.attrs.number("value"), 1.0);
}

TEST(Sgd, WritesOneNodePerParameter) {
  OneLayer one;
  Sgd sgd(one.state / "optim", {.lr = 0.5, .momentum = 0.9, .weight_decay = 0.01});
  Tracing tracing(2, 4);
  Optimizer& optimizer = sgd;  // as a launcher holds it
  optimizer.update(grad(one.loss(tracing), one.state.parameters()));
  const Graph& graph = tracing.graph();
  verify(graph, "trace");
  auto updates = nodes_of(graph, "sgd");
  ASSERT_EQ(updates.size(), 2u);
  EXPECT_EQ(updates[0]->attrs.number("weight_decay"), 0.01);
  EXPECT_EQ(updates[1]->attrs.number("weight_decay"), 0.0);
  EXPECT_EQ(updates[0]->attrs.number("momentum"), 0.9);
  EXPECT_EQ(graph.find_output("optim.head.weight.momentum"), updates[0]->outputs[1]);
  EXPECT_EQ(optimizer.scalars(1), (std::map<std::string, double>{{"optim.lr", 0.5}}));
}

TEST(Optimizers, TwoOfThemShareAState) {
  State state(solo_mesh(), 1);
  Linear a(state / "a", 4, 3, /*bias=*/false), b(state / "b", 3, 4, /*bias=*/false);
  AdamW first(state / "optim", {.lr = 1.0});
  Sgd second(state / "optim2", {.lr = 2.0});
  Tracing tracing(2, 4);
  Loss loss = cross_entropy(b(a(convert(tracing.ids, DType::f32))), OneLayer::slice_ids(tracing));
  auto parameters = state.parameters();
  first.update(grad(loss, {parameters[0]}));
  second.update(grad(loss, {parameters[1]}));
  EXPECT_NE(tracing.graph().find_output("grad_norm"), kNoValue);
  EXPECT_NE(tracing.graph().find_output("optim2.grad_norm"), kNoValue);
  EXPECT_EQ(state.scalars(1).at("optim.lr"), 1.0);
  EXPECT_EQ(state.scalars(1).at("optim2.lr"), 2.0);
}

TEST(UserProgram, ReadsAsTheDesignShowsIt) {
  State state(mesh_of({2, 2}, {"dp_shard", "tp"}), /*seed=*/1337);
  Gpt gpt(state.root(), 50, 8, 12, 2, 2);
  AdamW adamw(state / "optim", {.lr = warmup_cosine(6e-4, 200, 10000), .weight_decay = 0.1});
  state.place({{"tp", "blocks.*.attn.qkv.*", Shard(0, 3)},
               {"tp", "blocks.*.mlp.up.*", Shard(0)},
               {"tp", "blocks.*.{attn.out,mlp.down}.weight", Shard(1)},
               {"dp_shard", "**", Shard(0)}});
  auto step = [&](Tensor ids, Tensor targets) {
    Loss loss = cross_entropy(gpt(ids), targets);
    adamw.update(grad(loss, state.parameters()));
    return loss;
  };
  Tracing tracing(3, 8);
  Loss loss = step(tracing.ids, tracing.targets);
  EXPECT_EQ(loss.sum.text(), "f32[]");
  EXPECT_EQ(loss.count.text(), "i64[]");
  verify(tracing.graph(), "trace");
  EXPECT_EQ(tracing.count("adamw"), static_cast<int64_t>(state.parameters().size()));
  // The same names as the built-in model.
  State built(solo_mesh(), 1);
  models::Gpt(built.root(), {.vocab = 50, .context = 8, .width = 12, .depth = 2, .heads = 2});
  for (const Parameter& p : built.parameters())
    EXPECT_EQ(state.find_spec(p.fqn()).shape(), p.shape()) << p.fqn();
  EXPECT_EQ(state.parameters().size(), built.parameters().size());
  state.materialize();
  EXPECT_EQ(state.array("optim.token.weight.exp_avg").local_shape, (Shape{25, 12}));
}
