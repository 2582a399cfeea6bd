// Walks over a graph.
#include "core/ir/walk.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/ir/print.h"

namespace lockstep {

PerValue<std::vector<NodeId>> users_of(const Graph& graph) {
  PerValue<std::vector<NodeId>> users(graph.values.size());
  for (NodeId n : graph.node_ids())
    for (ValueId input : graph.node(n).inputs) {
      auto& list = users[input];
      if (list.empty() || list.back() != n) list.push_back(n);
    }
  return users;
}

// One pass backward suffices, since nodes are in a valid order: every user of a value comes after its
// producer.
PerNode<bool> needed_nodes(const Graph& graph) {
  PerValue<bool> value_needed(graph.values.size());
  PerNode<bool> node_needed(graph.nodes.size());
  for (const auto& output : graph.outputs) value_needed[output.value] = true;
  for (NodeId n : graph.node_ids().backward()) {
    const Node& node = graph.node(n);
    node_needed[n] =
        std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId v) { return value_needed[v]; });
    if (node_needed[n])
      for (ValueId input : node.inputs) value_needed[input] = true;
  }
  return node_needed;
}

// One pass forward suffices for the same reason.
PerValue<bool> depends_on(const Graph& graph, const std::vector<ValueId>& roots) {
  PerValue<bool> reached(graph.values.size());
  for (ValueId root : roots) reached[root] = true;
  for (const Node& node : graph.nodes)
    if (std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) { return reached[v]; }))
      for (ValueId output : node.outputs) reached[output] = true;
  return reached;
}

Rewriter::Rewriter(const Graph& old) : old_(old), map_(old.values.size(), kNoValue) {
  made_.mesh = old.mesh;
  for (const auto& input : old.inputs) {
    ValueId made = made_.add_input(input.kind, input.name, old[input.value].dtype, old[input.value].shape);
    made_[made].layout = old[input.value].layout;
    map(input.value, made);
  }
}
ValueId Rewriter::at(ValueId old) const {
  LS_CHECK(mapped(old), "value %", old, " is read before it is made");
  return map_[old];
}
std::vector<ValueId> Rewriter::copy(const Node& node) {
  std::vector<ValueId> inputs;
  for (ValueId input : node.inputs) inputs.push_back(at(input));
  std::vector<std::pair<DType, Shape>> types;
  for (ValueId output : node.outputs) types.emplace_back(old_[output].dtype, old_[output].shape);
  auto made = made_.append(node.op, inputs, node.attrs, types, node.at);
  made_.nodes.back().body = node.body;
  for (size_t i = 0; i < made.size(); ++i) {
    made_[made[i]].layout = old_[node.outputs[i]].layout;
    map(node.outputs[i], made[i]);
  }
  return made;
}
Graph Rewriter::finish() {
  for (const auto& output : old_.outputs) made_.add_output(output.kind, output.name, at(output.value));
  return std::move(made_);
}

Graph prune(const Graph& graph) {
  auto needed = needed_nodes(graph);
  Rewriter rewriter(graph);
  for (NodeId n : graph.node_ids())
    if (needed[n]) rewriter.copy(graph.node(n));
  return rewriter.finish();
}

Graph reorder(const Graph& graph, const std::vector<NodeId>& order) {
  LS_CHECK(order.size() == graph.nodes.size(), "an order of ", order.size(), " for ", graph.nodes.size(),
           " nodes");
  Rewriter rewriter(graph);
  for (NodeId n : order) rewriter.copy(graph.node(n));
  return rewriter.finish();
}

std::string structure_hash(const Graph& graph) { return hash_hex(print(graph, {.source_lines = false})); }

}  // namespace lockstep
