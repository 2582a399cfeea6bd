// Finds sums of tables' gradients that only updates and norms read, and replaces them by rows.
#include "compiler/lower/gradients_by_rows.h"

#include <algorithm>
#include <set>
#include <string>

#include "compiler/codegen/target.h"
#include "compiler/lower/round_rows.h"
#include "core/ir/walk.h"
#include "core/ops/op.h"

namespace lockstep::compiler {

namespace {
class Finder {
 public:
  Finder(const Graph& graph, int64_t micro_batches)
      : graph_(graph), micro_batches_(micro_batches), users_(users_of(graph)) {
    for (const auto& output : graph.outputs) outputs_.insert(output.value);
  }

  // The name of the table whose gradient the node sums, if the step takes few of its rows; else "".
  std::string table_of(const Node& node) const {
    if (node.op != ops::sum_lanes || !graph_[node.inputs[0]].producer.valid()) return "";
    const Node& made = graph_.producer(node.inputs[0]);
    if (made.op != ops::embedding_grad || outputs_.count(node.outputs[0])) return "";
    const Value &table = graph_[made.outputs[0]], &rows = graph_[made.inputs[0]];
    const int64_t taken = numel(graph_[made.inputs[1]].shape) * micro_batches_;
    if (table.dtype != DType::f32 || rows.dtype != DType::f32 || table.shape.size() != 2 || taken == 0 ||
        table.shape[0] / kRowsPerTaken < taken)
      return "";
    std::string out;
    for (NodeId user : users_[node.outputs[0]]) {
      const Node& reader = graph_.node(user);
      if (reader.op == ops::global_norm) continue;
      if (!is_update_of(reader, node.outputs[0])) return "";
      out = name_of(reader.inputs[0]);
    }
    return out;
  }

 private:
  // Whether an update has only this gradient: updates of several shapes, or that read a gradient twice, do
  // not count.
  static bool is_update_of(const Node& node, ValueId gradient) {
    return op_row(node.op).kind == OpKind::update && node.op != ops::put_rows && node.inputs[0] != gradient &&
           std::count(node.inputs.begin(), node.inputs.end(), gradient) == 1;
  }
  std::string name_of(ValueId state) const {
    for (const auto& input : graph_.inputs)
      if (input.value == state && input.kind == InputKind::state) return input.name;
    return "";
  }

  const Graph& graph_;
  int64_t micro_batches_;
  PerValue<std::vector<NodeId>> users_;
  std::set<ValueId> outputs_;
};

ValueId reshaped(Graph& graph, ValueId v, const Shape& shape, const SourceLine& at) {
  if (graph[v].shape == shape) return v;
  return graph.append(ops::reshape, {v}, {{"shape", Attr(std::vector<int64_t>(shape.begin(), shape.end()))}},
                      {{graph[v].dtype, shape}}, at)[0];
}
}  // namespace

Graph gradients_by_rows(Graph graph, const PassContext& context) {
  const bool runs =
      context.options.backend == Backend::reference || target_of(context.options).updates_by_rows();
  if (!runs || context.micro_batches < 1 || context.mesh.size("tp") > 1) return graph;
  const Finder finder(graph, context.micro_batches);
  Rewriter rewriter(graph);
  for (const Node& node : graph.nodes) {
    const std::string table = finder.table_of(node);
    if (table.empty()) {
      rewriter.copy(node);
      continue;
    }
    Graph& made = rewriter.graph();
    const Node& gradient = graph.producer(node.inputs[0]);
    const Shape& shape = graph[node.outputs[0]].shape;
    const int64_t count = numel(graph[gradient.inputs[1]].shape), all = count * context.micro_batches;
    const ValueId ids = reshaped(made, rewriter.at(gradient.inputs[1]), {count}, gradient.at),
                  rows = reshaped(made, rewriter.at(gradient.inputs[0]), {count, shape[1]}, gradient.at);
    const auto summed =
        made.append(ops::lane_rows, {ids, rows},
                    {{"of", Attr(table)}, {"rows", shape[0]}, {"micro_batches", context.micro_batches}},
                    {{DType::i32, {all}}, {DType::f32, {all, shape[1]}}}, gradient.at);
    rewriter.map(node.outputs[0], made.append(ops::spread_rows, summed, {{"rows", shape[0]}},
                                              {{DType::f32, shape}}, gradient.at)[0]);
  }
  return prune(rewriter.finish());
}

}  // namespace lockstep::compiler
