// Fusion: writes groups as fused nodes, in a valid order close to the graph's own.
#include "compiler/fuse/fuse.h"

#include <algorithm>
#include <functional>
#include <queue>

#include "compiler/fuse/groups.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/ir/walk.h"

namespace lockstep::compiler {

FuseGroups::Body FuseGroups::body_of(const FuseGroup& group) const {
  std::set<NodeId> members(group.nodes.begin(), group.nodes.end()), all;
  std::function<void(ValueId)> reach = [&](ValueId value) {
    NodeId producer = graph_[value].producer;
    if (!producer.valid() || all.count(producer) || roles_[producer] != FuseRole::copied) return;
    all.insert(producer);
    for (ValueId input : graph_.node(producer).inputs) reach(input);
  };
  for (NodeId n : group.nodes)
    for (ValueId input : graph_.node(n).inputs) reach(input);
  all.insert(members.begin(), members.end());
  Body body;
  body.graph = std::make_shared<Graph>();
  body.graph->mesh = Mesh{{}, {}};
  std::map<ValueId, ValueId> made;
  for (NodeId n : all)
    for (ValueId input : graph_.node(n).inputs) {
      NodeId producer = graph_[input].producer;
      if ((producer.valid() && all.count(producer)) || made.count(input)) continue;
      made[input] = body.graph->add_input(InputKind::value, str("x", body.inputs.size()), graph_[input].dtype,
                                          graph_[input].shape);
      body.inputs.push_back(input);
    }
  for (NodeId n : all) {
    const Node& node = graph_.node(n);
    std::vector<ValueId> inputs;
    for (ValueId input : node.inputs) inputs.push_back(made.at(input));
    std::vector<std::pair<DType, Shape>> types;
    for (ValueId output : node.outputs) types.emplace_back(graph_[output].dtype, graph_[output].shape);
    auto outputs = body.graph->append(node.op, inputs, node.attrs, types, node.at);
    for (size_t i = 0; i < outputs.size(); ++i) made[node.outputs[i]] = outputs[i];
  }
  const Unit& unit = units_[unit_of_[group.nodes[0]]];
  for (NodeId n : group.nodes)
    for (ValueId output : graph_.node(n).outputs)
      if (leaves(output, unit)) {
        body.graph->add_output(OutputKind::value, str("y", body.outputs.size()), made.at(output));
        body.outputs.push_back(output);
      }
  return body;
}

namespace {
std::shared_ptr<Graph> body_of_one(const Graph& graph, const Node& node) {
  auto body = std::make_shared<Graph>();
  body->mesh = Mesh{{}, {}};
  std::vector<ValueId> inputs;
  std::vector<std::pair<DType, Shape>> types;
  for (ValueId v : node.inputs)
    inputs.push_back(
        body->add_input(InputKind::value, str("x", inputs.size()), graph[v].dtype, graph[v].shape));
  for (ValueId v : node.outputs) types.emplace_back(graph[v].dtype, graph[v].shape);
  size_t made = 0;
  for (ValueId v : body->append(node.op, inputs, node.attrs, types, node.at))
    body->add_output(OutputKind::value, str("y", made++), v);
  return body;
}

// A node of the fused graph.
struct FuseStep {
  FuseGroups::Body body;  // empty graph: a kept node
  NodeId node;            // the kept node, or the last member
  std::vector<ValueId> reads, makes;
};

// Kahn's algorithm; among ready steps it takes the one whose last node comes first in the graph.
std::vector<size_t> valid_order(const std::vector<FuseStep>& steps, size_t values) {
  PerValue<int> maker(values, -1);
  std::vector<int> waiting(steps.size(), 0);
  for (size_t k = 0; k < steps.size(); ++k)
    for (ValueId value : steps[k].makes) maker[value] = static_cast<int>(k);
  std::vector<std::vector<size_t>> next(steps.size());
  for (size_t k = 0; k < steps.size(); ++k)
    for (ValueId value : steps[k].reads)
      if (maker[value] >= 0) next[maker[value]].push_back(k), ++waiting[k];
  using Ready = std::pair<NodeId, size_t>;
  std::priority_queue<Ready, std::vector<Ready>, std::greater<>> ready;
  for (size_t k = 0; k < steps.size(); ++k)
    if (waiting[k] == 0) ready.push({steps[k].node, k});
  std::vector<size_t> out;
  while (!ready.empty()) {
    out.push_back(ready.top().second);
    ready.pop();
    for (size_t other : next[out.back()])
      if (--waiting[other] == 0) ready.push({steps[other].node, other});
  }
  LS_CHECK(out.size() == steps.size(), "fused groups depend on each other in a circle");
  return out;
}
}  // namespace

Graph fuse(const Graph& graph, const FuseOptions& options) {
  FuseGroups groups(graph, options);
  groups.join();

  std::vector<FuseStep> steps;
  size_t members = 0;
  for (const FuseGroup& group : groups.groups()) {
    FuseStep step{groups.body_of(group), group.nodes.back(), {}, {}};
    step.reads = step.body.inputs;
    step.makes = step.body.outputs;
    members += group.nodes.size();
    if (logs::enabled("fusion") && options.enabled) {
      std::string names;
      for (NodeId n : group.nodes) names += str(" ", graph.node(n).op);
      logs::topic("fusion", str("group of ", group.nodes.size(), ":", names));
    }
    steps.push_back(std::move(step));
  }
  const size_t kernels = steps.size();
  for (NodeId n : graph.node_ids()) {
    if (!groups.needed(n) || groups.role(n) != FuseRole::kept) continue;
    const Node& node = graph.node(n);
    steps.push_back({{}, n, node.inputs, node.outputs});
    if (options.is_kernel && options.is_kernel(node)) steps.back().body.graph = body_of_one(graph, node);
  }

  Rewriter rewriter(graph);
  for (size_t k : valid_order(steps, graph.values.size())) {
    const FuseStep& step = steps[k];
    const Node& node = graph.node(step.node);
    if (!step.body.graph) {
      rewriter.copy(node);
    } else {
      std::vector<ValueId> inputs;
      std::vector<std::pair<DType, Shape>> types;
      for (ValueId value : step.reads) inputs.push_back(rewriter.at(value));
      for (ValueId value : step.makes) types.emplace_back(graph[value].dtype, graph[value].shape);
      auto made = rewriter.graph().append(ops::fused, inputs, {}, types, node.at);
      rewriter.graph().nodes.back().body = step.body.graph;
      for (size_t i = 0; i < made.size(); ++i) {
        rewriter.graph()[made[i]].layout = graph[step.makes[i]].layout;
        rewriter.map(step.makes[i], made[i]);
      }
    }
  }
  if (logs::enabled("fusion")) logs::topic("fusion", str(members, " primitives in ", kernels, " kernels"));
  return rewriter.finish();
}

}  // namespace lockstep::compiler
