// Structural checks on a graph.
#include "core/ir/verify.h"

#include <set>

#include "core/base/error.h"

namespace lockstep {

void verify_structure(const Graph& graph, std::string_view after) {
  auto count = static_cast<ValueId>(graph.values.size());
  std::vector<bool> made(graph.values.size());
  std::set<std::string> names;
  for (const auto& input : graph.inputs) {
    LS_CHECK(input.value >= 0 && input.value < count, "after ", after, ": input \"", input.name, "\" is %",
             input.value);
    LS_CHECK(graph[input.value].producer == -1, "after ", after, ": input \"", input.name,
             "\" has a producer");
    LS_CHECK(input.name.empty() || names.insert(input.name).second, "after ", after,
             ": two inputs are named \"", input.name, "\"");
    made[static_cast<size_t>(input.value)] = true;
  }
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    for (ValueId input : node.inputs) {
      LS_CHECK(input >= 0 && input < count, "after ", after, ": ", node.op, " at ", node.at.text(),
               " reads %", input);
      LS_CHECK(made[static_cast<size_t>(input)], "after ", after, ": ", node.op, " at ", node.at.text(),
               " reads %", input, " before it is made");
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      ValueId output = node.outputs[i];
      LS_CHECK(output >= 0 && output < count && !made[static_cast<size_t>(output)], "after ", after, ": ",
               node.op, " at ", node.at.text(), " makes %", output, " again");
      LS_CHECK(graph[output].producer == static_cast<NodeId>(n) && graph[output].index == static_cast<int>(i),
               "after ", after, ": %", output, " does not know its producer ", node.op);
      made[static_cast<size_t>(output)] = true;
    }
    if (node.body) {
      verify_structure(*node.body, after);
      LS_CHECK(
          node.body->inputs.size() == node.inputs.size() && node.body->outputs.size() == node.outputs.size(),
          "after ", after, ": the body of ", node.op, " at ", node.at.text(), " has other arguments");
    }
  }
  for (const auto& output : graph.outputs)
    LS_CHECK(output.value >= 0 && output.value < count && made[static_cast<size_t>(output.value)], "after ",
             after, ": output \"", output.name, "\" is %", output.value);
}

}  // namespace lockstep
