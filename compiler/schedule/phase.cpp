// Copies the nodes of a phase, with names that are the same on every mesh.
#include "compiler/schedule/phase.h"

#include <map>

#include "core/base/error.h"

namespace lockstep::compiler {

ValueId whole_value_of(const Phase& phase, ValueId input) {
  for (size_t i = 0; i < phase.graph.inputs.size(); ++i)
    if (phase.graph.inputs[i].value == input) return phase.inputs[i];
  throw InternalError(str("%", input, " is no input of its phase"));
}

ValueId gathered_input(const Graph& whole, ValueId v) {
  while (whole[v].producer.valid()) {
    const Node& node = whole.producer(v);
    if (node.op != ops::wait) return kNoValue;
    const Node& start = whole.producer(node.inputs[0]);
    if (start.op != ops::all_gather_start) return kNoValue;
    v = start.inputs[whole[v].index];
  }
  return v;
}

Phase extract(const Graph& whole, const std::vector<ValueId>& outputs, const std::set<ValueId>& given) {
  PerValue<bool> needed(whole.values.size());
  std::set<NodeId> nodes;
  std::vector<ValueId> open = outputs;
  while (!open.empty()) {
    ValueId v = open.back();
    open.pop_back();
    if (needed[v]) continue;
    needed[v] = true;
    if (given.count(v) || !whole[v].producer.valid()) continue;
    nodes.insert(whole[v].producer);
    for (ValueId input : whole.producer(v).inputs) open.push_back(input);
  }
  Phase phase;
  PerValue<ValueId> map(whole.values.size(), kNoValue);
  auto add_input = [&](InputKind kind, const std::string& label, ValueId v) {
    map[v] = phase.graph.add_input(kind, label, whole[v].dtype, whole[v].shape);
    phase.inputs.push_back(v);
  };
  // A weight is the same input of the phase whether it is whole or was gathered, so that the phase is the
  // same on every mesh.
  std::map<ValueId, ValueId> gathered;
  for (ValueId v : given)
    if (needed[v] && whole[v].producer.valid())
      if (ValueId input = gathered_input(whole, v); input != kNoValue) gathered[input] = v;
  for (const auto& input : whole.inputs) {
    if (needed[input.value]) add_input(input.kind, input.name, input.value);
    if (auto found = gathered.find(input.value); found != gathered.end())
      add_input(input.kind, input.name, found->second);
  }
  // A given value is named by its position among the given ones, not by its id, because ids depend on other
  // parts of the program.
  int place = 0;
  for (ValueId v : given)
    if (needed[v] && whole[v].producer.valid() && map[v] == kNoValue)
      add_input(InputKind::value, str("given", place++), v);
  for (NodeId n : nodes) {
    const Node& node = whole.node(n);
    std::vector<ValueId> inputs;
    for (ValueId v : node.inputs) inputs.push_back(map[v]);
    std::vector<std::pair<DType, Shape>> types;
    for (ValueId v : node.outputs) types.emplace_back(whole[v].dtype, whole[v].shape);
    auto made = phase.graph.append(node.op, inputs, node.attrs, types, node.at);
    for (size_t i = 0; i < made.size(); ++i)
      if (map[node.outputs[i]] == kNoValue) map[node.outputs[i]] = made[i];
  }
  for (ValueId v : outputs) {
    phase.graph.add_output(OutputKind::value, str("out", phase.outputs.size()), map[v]);
    phase.outputs.push_back(v);
  }
  phase.graph.mesh = Mesh{};
  return phase;
}

}  // namespace lockstep::compiler
