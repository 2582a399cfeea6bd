// Graph walks that passes are built from: users, liveness of nodes, order, renumbering.
#pragma once

#include <functional>
#include <vector>

#include "core/ir/graph.h"

namespace lockstep {

PerValue<std::vector<NodeId>> users_of(const Graph& graph);  // nodes that read it, ascending, each once
PerNode<bool> needed_nodes(const Graph& graph);              // reached from an output
PerValue<bool> depends_on(const Graph& graph, const std::vector<ValueId>& roots);  // computed from any root

// Copies a graph while a pass rewrites it. `at` maps a value of the old graph to the new one; each node is
// copied unchanged or replaced.
class Rewriter {
 public:
  // Copies inputs (kinds, names, types, layouts) and the mesh.
  explicit Rewriter(const Graph& old);
  Graph& graph() { return made_; }
  ValueId at(ValueId old) const;  // new id; InternalError when not yet mapped
  bool mapped(ValueId old) const { return map_[old] != kNoValue; }
  void map(ValueId old, ValueId made) { map_[old] = made; }
  // Copies the op onto the mapped inputs, with the same output types and layouts; maps the outputs.
  std::vector<ValueId> copy(const Node& node);
  Graph finish();  // copies the outputs and returns the graph

 private:
  const Graph& old_;
  Graph made_;
  PerValue<ValueId> map_;
};

// Removes the nodes that no output needs (inputs stay) and renumbers values densely in order of appearance.
Graph prune(const Graph& graph);
// Puts the nodes in the given order. Throws InternalError unless it is a permutation of node ids that
// respects dependencies.
Graph reorder(const Graph& graph, const std::vector<NodeId>& order);
// Content hash of the printed graph without source lines: equal graphs have equal hashes.
std::string structure_hash(const Graph& graph);

}  // namespace lockstep
