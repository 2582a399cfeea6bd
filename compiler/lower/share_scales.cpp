// Finds products with delayed scales that read one tensor.
#include "compiler/lower/share_scales.h"

#include <map>
#include <utility>

#include "compiler/lower/delayed_products.h"

namespace lockstep::compiler {

Graph share_scales(Graph graph, const PassContext&) {
  // {tensor that products read, length of the history} -> the history of the first product that reads it.
  std::map<std::pair<ValueId, int64_t>, ValueId> first;
  for (Node& node : graph.nodes) {
    if (!is_delayed_product(node) || node.attrs.flag("shares")) continue;
    const ValueId x = node.inputs[place_of_x(node)], own = node.inputs[place_of_history(node)];
    const ValueId history = first.emplace(std::pair(x, graph[own].shape.at(1)), own).first->second;
    if (history == own) continue;
    node.inputs.push_back(history);
    node.attrs.set("shares", true);
  }
  return graph;
}

}  // namespace lockstep::compiler
