// Finds rounded tables that only takes read, and moves the rounding after the takes.
#include "compiler/lower/round_rows.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/ir/walk.h"

namespace lockstep::compiler {

namespace {
bool takes_rows(const Node& node) { return node.op == ops::embedding || node.op == ops::take; }

// Values that are rounded whole although only a few of their rows are taken. If several readers each round a
// table, their rows count together.
PerValue<bool> rounded_for_rows(const Graph& graph) {
  std::map<ValueId, std::vector<ValueId>> rounded;  // by table
  for (const auto& input : graph.inputs)
    if (input.kind == InputKind::state && !graph[input.value].shape.empty()) rounded[input.value];
  for (const Node& node : graph.nodes)
    if (const auto table = node.op == ops::convert ? rounded.find(node.inputs[0]) : rounded.end();
        table != rounded.end() && size_of(graph[node.outputs[0]].dtype) < size_of(graph[table->first].dtype))
      table->second.push_back(node.outputs[0]);
  std::set<ValueId> outputs;
  for (const auto& output : graph.outputs) outputs.insert(output.value);
  const auto users = users_of(graph);
  PerValue<bool> out(graph.values.size());
  for (const auto& [table, copies] : rounded) {
    int64_t taken = 0;
    const bool rows_alone = std::all_of(copies.begin(), copies.end(), [&](ValueId v) {
      return !outputs.count(v) && std::all_of(users[v].begin(), users[v].end(), [&](NodeId user) {
        const Node& reader = graph.node(user);
        if (!takes_rows(reader)) return false;
        taken += numel(graph[reader.outputs[0]].shape) / (numel(graph[table].shape) / graph[table].shape[0]);
        return true;
      });
    });
    if (rows_alone && taken > 0 && graph[table].shape[0] / kRowsPerTaken >= taken)
      for (ValueId v : copies) out[v] = true;
  }
  return out;
}
}  // namespace

Graph round_rows(Graph graph, const PassContext&) {
  const PerValue<bool> rounded = rounded_for_rows(graph);
  Rewriter rewriter(graph);
  for (const Node& node : graph.nodes) {
    if (!takes_rows(node) || !rounded[node.inputs[0]]) {
      rewriter.copy(node);
      continue;
    }
    Graph& made = rewriter.graph();
    const Node& rounding = graph.producer(node.inputs[0]);
    const Value& rows = graph[node.outputs[0]];
    const ValueId table = rewriter.at(rounding.inputs[0]), ids = rewriter.at(node.inputs[1]);
    const ValueId wide =
        made.append(node.op, {table, ids}, node.attrs, {{made[table].dtype, rows.shape}}, node.at)[0];
    rewriter.map(node.outputs[0], made.append(ops::convert, {wide}, rounding.attrs,
                                              {{rows.dtype, rows.shape}}, rounding.at)[0]);
  }
  return prune(rewriter.finish());
}

}  // namespace lockstep::compiler
