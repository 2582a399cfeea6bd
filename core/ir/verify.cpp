// Structural checks on a graph.
#include "core/ir/verify.h"

#include <set>

#include "core/base/error.h"

namespace lockstep {

void verify_structure(const Graph& graph, std::string_view after) {
  auto known = [&](ValueId v) { return v.valid() && v.index() < graph.values.size(); };
  PerValue<bool> made(graph.values.size());
  std::set<std::string> names;
  for (const auto& input : graph.inputs) {
    LS_CHECK(known(input.value), "after ", after, ": input \"", input.name, "\" is %", input.value);
    LS_CHECK(!graph[input.value].producer.valid(), "after ", after, ": input \"", input.name,
             "\" has a producer");
    LS_CHECK(input.name.empty() || names.insert(input.name).second, "after ", after,
             ": two inputs are named \"", input.name, "\"");
    made[input.value] = true;
  }
  for (NodeId n : graph.node_ids()) {
    const Node& node = graph.node(n);
    for (ValueId input : node.inputs) {
      LS_CHECK(known(input), "after ", after, ": ", node.op, " at ", node.at.text(), " reads %", input);
      LS_CHECK(made[input], "after ", after, ": ", node.op, " at ", node.at.text(), " reads %", input,
               " before it is made");
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      ValueId output = node.outputs[i];
      LS_CHECK(known(output) && !made[output], "after ", after, ": ", node.op, " at ", node.at.text(),
               " makes %", output, " again");
      LS_CHECK(graph[output].producer == n && graph[output].index == static_cast<int>(i), "after ", after,
               ": %", output, " does not know its producer ", node.op);
      made[output] = true;
    }
    if (node.body) {
      verify_structure(*node.body, after);
      LS_CHECK(
          node.body->inputs.size() == node.inputs.size() && node.body->outputs.size() == node.outputs.size(),
          "after ", after, ": the body of ", node.op, " at ", node.at.text(), " has other arguments");
    }
  }
  for (const auto& output : graph.outputs)
    LS_CHECK(known(output.value) && made[output.value], "after ", after, ": output \"", output.name,
             "\" is %", output.value);
}

}  // namespace lockstep
