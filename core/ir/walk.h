// Walks over a graph: users, liveness of nodes, order, renumbering. What passes are written with.
#pragma once

#include <functional>
#include <vector>

#include "core/ir/graph.h"

namespace lockstep {

PerValue<std::vector<NodeId>> users_of(const Graph& graph);  // nodes that read it, ascending, each once
PerNode<bool> needed_nodes(const Graph& graph);              // reached from an output
PerValue<bool> depends_on(const Graph& graph, const std::vector<ValueId>& roots);  // computed from any root

// Copies a graph while a pass rewrites it. Values of the old graph are looked up with `at`; a node is copied
// as it is, or replaced.
class Rewriter {
 public:
  // Copies inputs (kinds, names, types, layouts) and the mesh.
  explicit Rewriter(const Graph& old);
  Graph& graph() { return made_; }
  ValueId at(ValueId old) const;  // new id; InternalError when not yet mapped
  bool mapped(ValueId old) const { return map_[old] != kNoValue; }
  void map(ValueId old, ValueId made) { map_[old] = made; }
  std::vector<ValueId> copy(
      const Node& node);  // same op on the mapped inputs, same output types and layouts; maps its outputs
  Graph finish();         // copies the outputs and returns the graph

 private:
  const Graph& old_;
  Graph made_;
  PerValue<ValueId> map_;
};

// Without nodes that no output needs (inputs stay), values renumbered densely in order of appearance.
Graph prune(const Graph& graph);
// Nodes in the given order (a permutation of node ids that respects dependencies: InternalError otherwise).
Graph reorder(const Graph& graph, const std::vector<NodeId>& order);
// Content hash of the printed graph without source lines: equal structure, equal text.
std::string structure_hash(const Graph& graph);

}  // namespace lockstep
