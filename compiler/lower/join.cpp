// Finds trees of adds over pads that tile one dim, and replaces them by concats. Stacks many parts along the
// first dim, where each part is contiguous.
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

  // The parts of a value along one dim, if it is a sum of single-use pads along that dim.
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

constexpr size_t kMany = 8;

// Replaces a stack of many along an inner dim by one along the first dim, permuted: each part can then be
// written in place.
std::optional<ValueId> stacked_in_front(Graph& made, ValueId concat) {
  const Node node = made.producer(concat);
  const Shape whole = made[concat].shape;
  const auto dim = node.attrs.integer("dim");
  if (node.inputs.size() < kMany || static_cast<size_t>(whole[dim]) != node.inputs.size() ||
      std::all_of(whole.begin(), whole.begin() + dim, [](int64_t size) { return size == 1; }))
    return {};
  auto in_front = [&](Shape shape) {
    std::rotate(shape.begin(), shape.begin() + dim, shape.begin() + dim + 1);
    return shape;
  };
  auto append = [&](OpId op, std::vector<ValueId> inputs, Attrs attrs, const Shape& shape) {
    return made.append(op, std::move(inputs), std::move(attrs), {{made[concat].dtype, shape}}, node.at)[0];
  };
  std::vector<ValueId> parts;
  for (ValueId part : node.inputs) {
    const Shape shape = in_front(made[part].shape);
    parts.push_back(append(ops::reshape, {part}, {{"shape", shape}}, shape));
  }
  const ValueId stacked = append(ops::concat, parts, {{"dim", int64_t{0}}}, in_front(whole));
  std::vector<int64_t> order(whole.size());
  for (size_t d = 0; d < order.size(); ++d) order[d] = static_cast<int64_t>(d);
  order.erase(order.begin());
  order.insert(order.begin() + dim, 0);
  return append(ops::permute, {stacked}, {{"order", order}}, whole);
}
}  // namespace

Graph join_pads(Graph graph, const PassContext&) {
  Joiner joiner(graph);
  Rewriter rewriter(graph);
  Graph& made = rewriter.graph();
  for (const Node& node : graph.nodes) {
    const ValueId value = node.outputs.empty() ? kNoValue : node.outputs[0];
    if (auto tiled = joiner.tiling(node)) {
      std::vector<ValueId> inputs;
      for (const auto& part : tiled->second) inputs.push_back(rewriter.at(part.value));
      const ValueId joined =
          made.append(ops::concat, inputs, {{"dim", Attr(static_cast<int64_t>(tiled->first))}},
                      {{graph[value].dtype, graph[value].shape}}, node.at)[0];
      made[joined].layout = graph[value].layout;
      rewriter.map(value, joined);
    } else {
      rewriter.copy(node);
      if (node.op != ops::concat) continue;
    }
    if (auto stacked = stacked_in_front(made, rewriter.at(value))) rewriter.map(value, *stacked);
  }
  return prune(rewriter.finish());
}

}  // namespace lockstep::compiler
