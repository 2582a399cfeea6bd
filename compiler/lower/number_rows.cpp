// Finds draws whose dim 0 is larger than the batch, and multiplies their sample number.
#include "compiler/lower/number_rows.h"

#include <map>

#include "core/ir/walk.h"
#include "core/ops/op.h"

namespace lockstep::compiler {

namespace {
int64_t samples_of(const Graph& graph) {
  for (const auto& input : graph.inputs)
    if (input.kind == InputKind::batch) return graph[input.value].shape.at(0);
  return 0;
}
bool draws(const Node& node) {
  return op_row(node.op).kind == OpKind::random || node.op == ops::dropout || node.op == ops::sdpa ||
         node.op == ops::sdpa_grad;
}
}  // namespace

Graph number_rows(Graph graph, const PassContext&) {
  const ValueId sample = graph.find_input("rng.sample");
  const int64_t samples = samples_of(graph);
  if (sample == kNoValue || samples == 0) return graph;
  Rewriter rewriter(graph);
  Graph& made = rewriter.graph();
  const ValueId first_sample = rewriter.at(sample);
  std::map<int64_t, ValueId> first_row{{1, first_sample}};  // by the number of rows per sample
  for (const Node& node : graph.nodes) {
    const Shape shape = draws(node) ? graph[node.outputs.at(0)].shape : Shape{};
    const int64_t rows = shape.empty() || shape[0] <= samples ? 1 : (shape[0] - 1) / samples + 1;
    auto [known, is_new] = first_row.try_emplace(rows);
    if (is_new) {
      const ValueId number =
          made.append(ops::full, {}, {{"shape", Shape{}}, {"value", rows}, {"dtype", DType::i64}},
                      {{DType::i64, {}}}, node.at)[0];
      known->second = made.append(ops::mul, {first_sample, number}, {}, {{DType::i64, {}}}, node.at)[0];
    }
    rewriter.map(sample, known->second);
    rewriter.copy(node);
    rewriter.map(sample, first_sample);
  }
  return rewriter.finish();
}

}  // namespace lockstep::compiler
