// Convolutions whose tensors lie channels last: models of convolutions learn the same, the permutes between
// them are gone, and a convolution sees its tensors where they lie.
#include "compiler/lower/channels_last.h"

#include <gtest/gtest.h>

#include "compiler/program/blocks/places.h"
#include "compiler/register_pass.h"
#include "core/ops/op.h"
#include "tests/support/model_run.h"

namespace lockstep {
namespace {

using compiler::with_channels_last;

bool convolution(const Graph&, const Node& node) { return op_row(node.op).library == Library::convolution; }

struct Seen {
  int64_t permutes = 0, bytes = 0, aliases = 0, convolutions = 0;
};
// The pass for every convolution; what it leaves is counted. Its aliases become kernels, so that any target
// runs them.
Graph everywhere(const Graph& graph, Seen& seen) {
  Graph made = with_channels_last(graph, convolution);
  for (Node& node : made.nodes) {
    seen.convolutions += convolution(made, node);
    if (node.op != ops::permute) continue;
    const Value& value = made[node.outputs[0]];
    if (node.attrs.flag("alias")) {
      Attrs attrs;
      attrs.set("order", node.attrs.list("order"));
      node.attrs = attrs;
      ++seen.aliases;
    } else if (value.shape.size() == 4) {
      ++seen.permutes, seen.bytes += numel(value.shape) * static_cast<int64_t>(size_of(value.dtype));
    }
  }
  return made;
}

class ChannelsLast : public ::testing::TestWithParam<tests::ModelRun> {};

TEST_P(ChannelsLast, LearnsTheSame) {
  const tests::ModelRun& plain = GetParam();
  static Seen seen;
  static bool known = false;
  if (!known)
    compiler::register_pass("channels_last", "test::everywhere", [](Graph g) { return everywhere(g, seen); });
  known = true;
  const auto right = train_model(plain);
  seen = {};
  tests::ModelRun last = plain;
  last.passes = {"test::everywhere"};
  const auto got = train_model(last);
  EXPECT_GT(seen.convolutions, 0);
  EXPECT_GE(seen.aliases, 2 * seen.convolutions);  // two are read, one is written
  // Of the first step: batch norms of few samples make small differences large.
  EXPECT_NEAR(std::stod(got.losses[0]), std::stod(right.losses[0]), 1e-4 * std::stod(right.losses[0]));
  int norms = 0;
  for (const auto& [name, norm] : right.metrics)
    if (name.rfind("norm.", 0) == 0) {
      ++norms;
      EXPECT_NEAR(got.metrics.at(name), norm, 1e-2 * std::max(0.1, norm)) << name;
    }
  EXPECT_GT(norms, 20);
}

INSTANTIATE_TEST_SUITE_P(
    Models, ChannelsLast,
    ::testing::Values(tests::ModelRun{.kind = "resnet",
                                      .options = {{"layers", 18}, {"size", 64}, {"classes", 5}},
                                      .global = 4,
                                      .micro = 4,
                                      .steps = 1,
                                      .formula = true},
                      tests::ModelRun{.kind = "unet",
                                      .options = {{"size", 16}, {"width", 4}, {"depth", 2}},
                                      .formula = true}),
    [](const auto& info) { return info.param.kind; });

// Two convolutions and what stands between them.
struct Block {
  Graph graph;
  ValueId x, first, y;
};
Block block(int64_t channels, int64_t size) {
  Block out;
  Graph& g = out.graph;
  const Shape shape{2, channels, size, size}, weight{channels, channels, 3, 3};
  const Attrs attrs{{"stride", std::vector<int64_t>{1, 1}},
                    {"lo", std::vector<int64_t>{1, 1}},
                    {"hi", std::vector<int64_t>{1, 1}},
                    {"dilation", std::vector<int64_t>{1, 1}},
                    {"groups", int64_t{1}}};
  out.x = g.add_input(InputKind::value, "x", DType::f32, shape);
  const ValueId a = g.add_input(InputKind::value, "a", DType::f32, weight),
                b = g.add_input(InputKind::value, "b", DType::f32, weight),
                scale = g.add_input(InputKind::value, "scale", DType::f32, {channels});
  auto add = [&](OpId op, std::vector<ValueId> in, Attrs with, const Shape& to) {
    return g.append(op, std::move(in), std::move(with), {{DType::f32, to}}, {})[0];
  };
  out.first = add(ops::convolution, {out.x, a}, attrs, shape);
  const ValueId wide =
      add(ops::broadcast, {scale}, {{"shape", shape}, {"dims", std::vector<int64_t>{1}}}, shape);
  const ValueId scaled = add(ops::mul, {add(ops::exp, {out.first}, {}, shape), wide}, {}, shape);
  out.y = add(ops::convolution, {scaled, b}, attrs, shape);
  const ValueId sum = add(ops::sum, {out.y}, {{"dims", std::vector<int64_t>{0, 2, 3}}}, {channels});
  g.add_output(OutputKind::value, "sum", sum);
  return out;
}

TEST(ChannelsLastGraph, PermutesOnlyWhatComesIn) {
  const Graph made = with_channels_last(block(8, 16).graph, convolution);
  verify(made, "channels_last");
  std::vector<std::string> ops;
  for (const Node& node : made.nodes) ops.push_back(str(node.op, node.attrs.flag("alias") ? " alias" : ""));
  const std::vector<std::string> right{"permute",     "permute alias", "permute", "permute alias",
                                       "convolution", "permute alias", "exp",     "broadcast",
                                       "mul",         "permute alias", "permute", "permute alias",
                                       "convolution", "permute alias", "sum"};
  EXPECT_EQ(ops, right);
}

TEST(ChannelsLastGraph, AConvolutionReadsAndWritesWhereTheTensorsLie) {
  const Graph made = with_channels_last(block(8, 16).graph, convolution);
  const auto places = compiler::places_of(made);
  int seen = 0;
  for (const Node& node : made.nodes) {
    if (!convolution(made, node)) continue;
    ++seen;
    for (ValueId v : {node.inputs[0], node.outputs[0]}) {
      EXPECT_NE(places[v].root, v);
      EXPECT_EQ(made[places[v].root].shape, (Shape{2, 16, 16, 8}));
      EXPECT_EQ(places[v].strides, (std::vector<int64_t>{16 * 16 * 8, 1, 16 * 8, 8}));
    }
    EXPECT_EQ(places[node.inputs[1]].strides, (std::vector<int64_t>{3 * 3 * 8, 1, 3 * 8, 8}));
  }
  EXPECT_EQ(seen, 2);
}

// One convolution between programs that lie channels first is not worth two permutes.
TEST(ChannelsLastGraph, StaysWhereMoreWouldBePermutedThanConvolved) {
  Graph graph = block(8, 16).graph;
  graph.outputs.clear();
  for (const Node& node : graph.nodes)
    if (op_row(node.op).kind == OpKind::pointwise || convolution(graph, node))
      graph.add_output(OutputKind::value, str("y", node.outputs[0]), node.outputs[0]);
  const Graph made = with_channels_last(graph, convolution);
  for (const Node& node : made.nodes) EXPECT_NE(node.op, ops::permute);
}

}  // namespace
}  // namespace lockstep
