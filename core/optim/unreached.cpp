// Walks back from a gradient to the `grad` nodes that make it, and tests whether their losses reach the
// parameter.
#include "core/optim/unreached.h"

#include <algorithm>
#include <map>

namespace lockstep {

namespace {
// The values that a gradient of `loss` reaches: through floats, and not past stop_gradient.
PerValue<bool> flows_to(const Graph& graph, ValueId loss) {
  PerValue<bool> out(graph.values.size());
  out[loss] = true;
  for (NodeId n : graph.node_ids().backward()) {
    const Node& node = graph.node(n);
    if (node.op == ops::stop_gradient ||
        std::none_of(node.outputs.begin(), node.outputs.end(), [&](ValueId v) { return out[v]; }))
      continue;
    // A custom_gradient passes gradients only to its function's inputs, which follow the outputs in its input
    // list.
    const bool own = node.op == ops::custom_gradient;
    const size_t first = own ? static_cast<size_t>(node.attrs.integer("outputs")) : 0;
    const size_t end = own ? first + node.attrs.list("gradients").size() : node.inputs.size();
    for (size_t i = first; i < end; ++i)
      if (is_float(graph[node.inputs[i]].dtype) && (!own || node.attrs.list("gradients")[i - first]))
        out[node.inputs[i]] = true;
  }
  return out;
}

class Search {
 public:
  explicit Search(const Graph& graph) : graph_(graph) {}
  // Whether `gradient` consists only of gradients of losses that do not reach `parameter`.
  bool none(ValueId gradient, ValueId parameter) {
    bool found = false;
    std::set<ValueId> seen{gradient};
    std::vector<ValueId> open{gradient};
    while (!open.empty()) {
      const ValueId v = open.back();
      open.pop_back();
      if (!graph_[v].producer.valid()) continue;
      const Node& node = graph_.node(graph_[v].producer);
      if (node.op == ops::grad || node.op == ops::vjp) {
        const bool of_loss = node.op == ops::grad;
        const size_t terms = of_loss && node.attrs.has("terms") ? node.attrs.integer("terms") : 1;
        const size_t roots = 2 * terms + (of_loss && node.attrs.flag("scaled") ? 1 : 0);
        if (node.inputs.at(roots + static_cast<size_t>(graph_[v].index)) != parameter) continue;
        for (size_t term = 0; term < terms; ++term)  // a sum and a count each
          if (flows(node.inputs[2 * term])[parameter]) return false;
        found = true;
        continue;
      }
      for (ValueId input : node.inputs)
        if (seen.insert(input).second) open.push_back(input);
    }
    return found;
  }

 private:
  const PerValue<bool>& flows(ValueId loss) {
    const auto found = flows_.find(loss);
    return found != flows_.end() ? found->second : flows_.emplace(loss, flows_to(graph_, loss)).first->second;
  }
  const Graph& graph_;
  std::map<ValueId, PerValue<bool>> flows_;  // by loss
};
}  // namespace

std::set<std::string> unreached(const Gradients& gradients) {
  std::set<std::string> out;
  if (gradients.values.empty() || gradients.parameters.size() != gradients.values.size()) return out;
  const Graph& graph = gradients.values[0].builder()->graph;
  Search search(graph);
  for (size_t i = 0; i < gradients.values.size(); ++i) {
    const std::string& fqn = gradients.parameters[i].fqn();
    const ValueId parameter = graph.find_input(fqn);  // grad() reads it
    if (parameter == kNoValue || gradients.is_sparse(i) || !gradients.values[i].defined()) continue;
    if (search.none(gradients.values[i].id(), parameter)) out.insert(fqn);
  }
  return out;
}

}  // namespace lockstep
