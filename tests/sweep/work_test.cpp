// What a call does, in operations: every op that computes something has a count, and convolutions theirs to
// the last one.
#include <gtest/gtest.h>

#include "compiler/laws/backends.h"
#include "compiler/lower/decompose.h"
#include "compiler/pipeline.h"
#include "compiler/program/blocks/block.h"
#include "core/ops/apply.h"
#include "tests/sweep/cases.h"

namespace lockstep::sweep {
namespace {

using namespace compiler;

ProgramBlock block_of(const Graph& graph) {
  const CompileOptions options;
  const PassContext context{Mesh{}, {}, options};
  return plan_block({run_passes(decompose(graph, context), phase_passes(), context)}, options);
}

TEST(Work, EveryCallIsCounted) {
  size_t counted = 0;
  for_each_case([&](const Case& made) {
    if (made.op->kind == OpKind::update || made.node().op == ops::global_norm ||
        !not_taken(made.graph).empty())
      return;
    const ProgramBlock block = block_of(made.graph);
    for (const BlockCall& call : block.calls) {
      const Node& node = block.graph.node(call.node);
      auto empty = [&](ValueId v) { return numel(block.graph[v].shape) == 0; };
      if (std::any_of(node.inputs.begin(), node.inputs.end(), empty) || empty(node.outputs[0])) continue;
      EXPECT_GT(call.flops, 0) << made.title << ": " << call.family << " " << call.what;
      EXPECT_GT(call.bytes, 0) << made.title << ": " << call.family << " " << call.what;
      ++counted;
    }
  });
  EXPECT_GE(counted, 200u);
}

// 2 operations for each sample, window, output channel, channel of the group and place of the weight.
TEST(Work, ConvolutionsAreCountedExactly) {
  struct Given {
    int64_t groups;
    std::vector<int64_t> stride, dilation, lo, hi;
    Shape counts;
  };
  const Shape x{2, 6, 9, 8};
  const Given all[] = {{1, {1, 1}, {1, 1}, {0, 0}, {0, 0}, {7, 7}},
                       {2, {2, 1}, {1, 2}, {1, 0}, {1, 1}, {5, 7}},
                       {6, {3, 2}, {2, 3}, {2, 2}, {2, 2}, {3, 5}}};
  for (const Given& given : all) {
    auto builder = std::make_shared<Builder>();
    const Shape weight{12, 6 / given.groups, 3, 2}, y{2, 12, given.counts[0], given.counts[1]};
    Attrs attrs{{"groups", given.groups},
                {"stride", given.stride},
                {"dilation", given.dilation},
                {"lo", given.lo},
                {"hi", given.hi}};
    auto spatial = [&](std::vector<int64_t> sizes) {
      Attrs out = attrs;
      out.set("spatial", std::move(sizes));
      return out;
    };
    const auto in = add_inputs(builder, {{DType::f32, x}, {DType::f32, weight}, {DType::f32, y}});
    for (const Tensor& out : {apply1(ops::convolution, {in[0], in[1]}, attrs),
                              apply1(ops::convolution_grad_input, {in[2], in[1]}, spatial({9, 8})),
                              apply1(ops::convolution_grad_weight, {in[0], in[2]}, spatial({3, 2}))})
      builder->graph.add_output(OutputKind::value, str("out", out.id()), out.id());
    const ProgramBlock block = block_of(builder->graph);
    const double want =
        2.0 * 2 * static_cast<double>(given.counts[0] * given.counts[1] * 12 * (6 / given.groups) * 3 * 2);
    ASSERT_EQ(block.calls.size(), 3u);
    for (const BlockCall& call : block.calls) EXPECT_EQ(call.flops, want) << call.what;
    EXPECT_EQ(block.flops(), 3 * want);
  }
}

// A kernel is told to read the rows and parts that it takes, not all of the table.
TEST(Work, PartsAreReadNotTheWhole) {
  auto builder = std::make_shared<Builder>();
  const auto in =
      add_inputs(builder, {{DType::f32, {100, 3, 8}}, {DType::f32, {1000, 16}}, {DType::i32, {5}}});
  const Tensor part =
      apply1(ops::slice, {apply1(ops::permute, {in[0]}, {{"order", std::vector<int64_t>{1, 0, 2}}})},
             {{"start", std::vector<int64_t>{1, 0, 0}},
              {"limit", std::vector<int64_t>{2, 100, 8}},
              {"step", std::vector<int64_t>{1, 1, 1}}});
  const Tensor parts = apply1(ops::exp, {part}), rows = apply1(ops::exp, {apply1(ops::take, {in[1], in[2]})});
  for (const Tensor& out : {parts, rows})
    builder->graph.add_output(OutputKind::value, str("out", out.id()), out.id());
  int64_t bytes = 0;
  for (const BlockCall& call : block_of(builder->graph).calls) bytes += call.bytes;
  EXPECT_EQ(bytes, 4 * (2 * 800 + 2 * 80 + 5));
}

}  // namespace
}  // namespace lockstep::sweep
