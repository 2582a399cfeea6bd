// Finds trees of adds over pads that tile one dim, and makes them concats.
#include "compiler/lower/join.h"

#include <algorithm>
#include <optional>

#include "core/ir/walk.h"
#include "core/ops/op.h"

namespace lockstep::compiler {

namespace {
struct Part {
  int64_t from, to;
  ValueId value;
};

class Joiner {
 public:
  explicit Joiner(const Graph& graph) : graph_(graph), users_(users_of(graph)) {}

  // The parts of a value along one dim, when it is a sum of single-use pads along that dim.
  bool collect(ValueId v, bool root, int& dim, std::vector<Part>& parts) const {
    if (!graph_[v].producer.valid() || (!root && users_[v].size() != 1)) return false;
    const Node& node = graph_.producer(v);
    if (node.op == ops::add)
      return collect(node.inputs[0], false, dim, parts) && collect(node.inputs[1], false, dim, parts);
    if (node.op != ops::pad || node.attrs.number("value") != 0) return false;
    const auto& lo = node.attrs.list("lo");
    const auto& hi = node.attrs.list("hi");
    for (size_t d = 0; d < lo.size(); ++d) {
      if (lo[d] == 0 && hi[d] == 0) continue;
      if (dim >= 0 && dim != static_cast<int>(d)) return false;
      dim = static_cast<int>(d);
    }
    if (dim < 0) return false;
    int64_t from = lo[dim];
    parts.push_back({from, from + graph_[node.inputs[0]].shape[dim], node.inputs[0]});
    return true;
  }

  std::optional<std::pair<int, std::vector<Part>>> tiling(const Node& node) const {
    if (node.op != ops::add) return {};
    int dim = -1;
    std::vector<Part> parts;
    if (!collect(node.outputs[0], true, dim, parts)) return {};
    std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.from < b.from; });
    int64_t at = 0;
    for (const auto& part : parts) {
      if (part.from != at) return {};
      at = part.to;
    }
    if (at != graph_[node.outputs[0]].shape[dim]) return {};
    return std::pair{dim, parts};
  }

 private:
  const Graph& graph_;
  PerValue<std::vector<NodeId>> users_;
};
}  // namespace

Graph join_pads(Graph graph, const PassContext&) {
  Joiner joiner(graph);
  Rewriter rewriter(graph);
  for (const Node& node : graph.nodes) {
    auto tiled = joiner.tiling(node);
    if (!tiled) {
      rewriter.copy(node);
      continue;
    }
    std::vector<ValueId> inputs;
    for (const auto& part : tiled->second) inputs.push_back(rewriter.at(part.value));
    const Value& out = graph[node.outputs[0]];
    auto made =
        rewriter.graph().append(ops::concat, inputs, {{"dim", Attr(static_cast<int64_t>(tiled->first))}},
                                {{out.dtype, out.shape}}, node.at);
    rewriter.graph()[made[0]].layout = out.layout;
    rewriter.map(node.outputs[0], made[0]);
  }
  return prune(rewriter.finish());
}

}  // namespace lockstep::compiler
