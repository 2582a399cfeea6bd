// cut_products: what is cut and what is not, by the text of the graph and by the reference evaluator; how
// many pieces, by a formula.
#include "compiler/partition/cut_products.h"

#include <gtest/gtest.h>

#include "compiler/compile/compile.h"
#include "compiler/partition/piece_count.h"
#include "compiler/pipeline.h"
#include "compiler/reference/evaluate.h"
#include "core/base/philox.h"
#include "core/ir/walk.h"
#include "core/models/family.h"
#include "core/ops/op.h"
#include "core/optim/adamw.h"

namespace lockstep {

using namespace compiler;

namespace {

struct Traced {
  std::unique_ptr<State> state;
  Graph joint;  // differentiated and simplified
  PassContext context;
};
Traced traced(const std::string& kind, Shape shape, int64_t pieces) {
  Traced out;
  LiveMesh mesh = solo_mesh();
  mesh.words = Mesh{{1, 2}, {"dp_replicate", "tp"}};
  out.state = std::make_unique<State>(mesh, 1);
  State* state = out.state.get();
  Json options = {{"vocab", 50}, {"context", 16}, {"width", 32}, {"depth", 2}, {"heads", 4}};
  auto model = models::build(state->root(), kind, options);
  AdamW adamw(*state / "optim", {});
  state->place_by_default(model.placements);
  Graph graph = trace({{"ids", DType::i32, shape}, {"targets", DType::i32, shape}},
                      [&](const std::vector<Tensor>& batch) {
                        Loss loss = cross_entropy(model.logits(batch[0], true), batch[1]);
                        adamw.update(grad(loss, state->parameters()));
                        return loss;
                      });
  out.context = {mesh.words, [state](const std::string& fqn) { return state->layout(fqn); }, {}};
  out.context.options.tp_pieces = pieces;
  out.joint = run_passes(std::move(graph), step_passes().first(3), out.context);
  return out;
}
std::vector<HostTensor> inputs_of(const Graph& graph) {
  std::vector<HostTensor> out;
  for (const auto& input : graph.inputs) {
    const Value& value = graph[input.value];
    HostTensor& tensor = out.emplace_back(make_tensor(value.dtype, value.shape));
    for (int64_t i = 0; i < tensor.size(); ++i) {
      const uint32_t bits = philox::bits(3, 1, out.size(), static_cast<uint64_t>(i));
      if (is_float(value.dtype))
        tensor.set(i, 0.01 + static_cast<double>(bits % 1000) / 5000);
      else
        tensor.set_int_at(i, bits % 50);
    }
  }
  return out;
}
int count(const Graph& graph, OpId op) {
  return static_cast<int>(
      std::count_if(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) { return node.op == op; }));
}

TEST(CutProducts, CutsForwardProductsOfSplitWeightsAndLeavesTheOthers) {
  for (auto [shape, pieces] : {std::pair<Shape, int64_t>{{2, 16}, 2}, {{1, 16}, 4}}) {
    const Traced whole = traced("llama", shape, 1);
    const Graph cut = cut_products(whole.joint, traced("llama", shape, pieces).context);
    verify(cut, "cut_products");
    // Seven in each of two blocks; the head's weight is whole on tp.
    EXPECT_EQ(count(whole.joint, ops::linear), 15);
    EXPECT_EQ(count(cut, ops::linear), 14 * pieces + 1);
    EXPECT_EQ(count(cut, ops::dot), count(whole.joint, ops::dot)) << "the backward pass is whole";
    EXPECT_EQ(count(cut, ops::sdpa), 2);
    for (const Node& node : cut.nodes)
      if (node.op == ops::concat && node.attrs.flag("pieces")) {
        EXPECT_EQ(node.inputs.size(), static_cast<size_t>(pieces));
        EXPECT_EQ(node.attrs.integer("dim"), shape[0] == 1);
      }
  }
}

TEST(CutProducts, EveryOutputKeepsItsBits) {
  for (const char* kind : {"gpt", "llama"})
    for (auto [shape, pieces] : {std::pair<Shape, int64_t>{{2, 16}, 2}, {{1, 16}, 2}, {{4, 16}, 4}}) {
      const Traced whole = traced(kind, shape, 1);
      const Graph cut = cut_products(whole.joint, traced(kind, shape, pieces).context);
      ASSERT_NE(structure_hash(cut), structure_hash(whole.joint));
      const auto inputs = inputs_of(whole.joint);
      const auto wanted = evaluate(whole.joint, inputs), got = evaluate(cut, inputs);
      ASSERT_EQ(got.size(), wanted.size());
      for (size_t o = 0; o < got.size(); ++o)
        EXPECT_TRUE(same_bytes(got[o], wanted[o])) << kind << " " << whole.joint.outputs[o].name;
    }
}

TEST(CutProducts, LeavesOneRankAndOnePieceAlone) {
  const Traced one = traced("gpt", {2, 16}, 1);
  EXPECT_EQ(structure_hash(cut_products(one.joint, one.context)), structure_hash(one.joint));
  PassContext alone = traced("gpt", {2, 16}, 2).context;
  alone.mesh = Mesh{{2, 1}, {"dp_replicate", "tp"}};
  EXPECT_EQ(structure_hash(cut_products(one.joint, alone)), structure_hash(one.joint));
}

TEST(PieceCount, SequencesFirstElsePartsOfOne) {
  EXPECT_EQ(cut_into(2, 4, 100, 2)->dim, 0);
  EXPECT_EQ(cut_into(2, 1, 100, 2)->dim, 1);
  EXPECT_FALSE(cut_into(4, 2, 128, 2)) << "two sequences in four";
  EXPECT_FALSE(cut_into(4, 1, 100, 2)) << "100 tokens in 8";
  EXPECT_EQ(cut_into(4, 1, 100, 1)->pieces, 4) << "whole on each rank";
}

TEST(PieceCount, TheMostThatDivide) {
  EXPECT_EQ(cut_into_most(4, 8, 16, 2).pieces, 4);
  EXPECT_EQ(cut_into_most(4, 6, 16, 2).pieces, 3);
  EXPECT_EQ(cut_into_most(4, 5, 16, 2).pieces, 1);
  EXPECT_EQ(cut_into_most(8, 1, 24, 2).pieces, 6) << "of a single sequence";
  EXPECT_EQ(cut_into_most(8, 1, 24, 2).dim, 1);
  EXPECT_EQ(cut_into_most(8, 1, 24, 1).pieces, 8);
}

// Products of 2 seconds beside 1 second of travel, and the reverse: the longer one, and a piece of the
// shorter.
TEST(PieceCount, SecondsAreTheLongerAndAPieceOfTheShorter) {
  const TravelRates rates{.flops = 10, .bandwidth = 5, .latency = 0, .wave = 0};
  EXPECT_DOUBLE_EQ(seconds_of({.flops = 20, .waves = 0, .bytes = 5}, 1, rates), 3);
  EXPECT_DOUBLE_EQ(seconds_of({.flops = 20, .waves = 0, .bytes = 5}, 4, rates), 2.25);
  EXPECT_DOUBLE_EQ(seconds_of({.flops = 10, .waves = 0, .bytes = 10}, 4, rates), 2.25);
  EXPECT_DOUBLE_EQ(seconds_of({.flops = 20, .waves = 1, .bytes = 5}, 4, rates), 2.55)
      << "three more products";
}

// Two collectives behind each other have the latency of two, none has none.
TEST(PieceCount, EachCollectiveHasItsLatency) {
  const TravelRates rates{.flops = 10, .bandwidth = 5, .latency = 0.5, .wave = 0};
  EXPECT_DOUBLE_EQ(seconds_of({.flops = 40, .waves = 0, .bytes = 5}, 2, rates), 4 + (1 + 1) / 2.0);
  EXPECT_DOUBLE_EQ(seconds_of({.flops = 40, .waves = 0, .bytes = 5, .collectives = 2}, 2, rates),
                   4 + (2 + 1) / 2.0);
  EXPECT_DOUBLE_EQ(seconds_of({.flops = 40, .waves = 5, .bytes = 0, .collectives = 0}, 2, rates), 4.5);
}

// Without sequence parallelism what a product of columns reads is on each rank, and nothing is gained by
// pieces of it; with it, its gather travels beside it.
TEST(PieceCount, WholeSequencesAreNotGathered) {
  for (const bool parallel : {true, false}) {
    Traced made = traced("gpt", {4, 16}, kPiecesByRates);
    made.context.options.sequence_parallel = parallel;
    // Terms of inner dims take no time to compute here: what is gained is gained beside columns.
    made.context.options.travel = {.flops = 1e9, .bandwidth = 2.5e8, .latency = 1e-9, .wave = 0};
    made.context.layout_of = [state = made.state.get()](const std::string& fqn) {
      Layout out = state->layout(fqn);
      if (out.on(1) == Shard(1)) out.set(1, Replicate());
      return out;
    };
    const bool cut = structure_hash(cut_products(made.joint, made.context)) != structure_hash(made.joint);
    EXPECT_EQ(cut, parallel);
  }
}

TEST(PieceCount, TheBestIsTheShortestAndOneWhereNoneGains) {
  TravelRates rates{.flops = 10, .bandwidth = 5, .latency = 0, .wave = 0};
  const std::vector<TravellingProducts> even{{.flops = 20, .waves = 0, .bytes = 10}};
  EXPECT_EQ(best_cut(even, 8, 64, 2, rates).pieces, 8);
  EXPECT_EQ(best_cut(even, 2, 64, 2, rates).pieces, 2) << "what divides";
  EXPECT_EQ(best_cut(even, 1, 64, 2, rates).dim, 1);
  EXPECT_EQ(best_cut({{.flops = 20, .waves = 3, .bytes = 10}}, 8, 64, 2, rates).pieces, 2) << "4: 2.5 + 0.9";
  EXPECT_EQ(best_cut({{.flops = 20, .waves = 11, .bytes = 10}}, 8, 64, 2, rates).pieces, 1);
  rates.latency = 3;
  EXPECT_EQ(best_cut(even, 8, 64, 2, rates).pieces, 1) << "latencies alone are longer";
}

}  // namespace
}  // namespace lockstep
