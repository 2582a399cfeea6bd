// Expands composite nodes through the op table until only primitives and claimed ops are left.
#include "compiler/lower/decompose.h"

#include "core/base/error.h"
#include "core/ir/walk.h"
#include "core/ops/op.h"

namespace lockstep {

const std::set<std::string>& claimed_ops() {
  // linear, sdpa and their gradients: oneDNN contractions. embedding_grad: rows added in token order.
  // global_norm: exact sums by partition. Updates are expanded inside the multi-tensor kernel.
  static const std::set<std::string> claimed{"linear", "sdpa", "sdpa_grad", "embedding_grad", "global_norm"};
  return claimed;
}

Graph decompose(Graph graph, const PassContext&) {
  auto builder = std::make_shared<Builder>();
  builder->graph.mesh = graph.mesh;
  std::vector<ValueId> map(graph.values.size(), kNoValue);
  for (const auto& input : graph.inputs)
    map[static_cast<size_t>(input.value)] =
        builder->graph.add_input(input.kind, input.name, graph[input.value].dtype, graph[input.value].shape);
  bool again = false;
  for (const Node& node : graph.nodes) {
    const Op& row = op_row(node.op);
    std::vector<Tensor> inputs;
    for (ValueId v : node.inputs) inputs.emplace_back(builder, map[static_cast<size_t>(v)]);
    std::vector<Tensor> made;
    if (row.expand && row.kind != OpKind::update && !claimed_ops().count(node.op)) {
      AtLine line(node.at);
      made = row.expand({inputs, node.attrs, builder});
      LS_CHECK(made.size() == node.outputs.size(), node.op, ": the expansion gives ", made.size(), " values for ", node.outputs.size(),
               " outputs");
      again = true;
    } else {
      made = apply_at(node.op, inputs, node.attrs, node.at, builder);
    }
    for (size_t i = 0; i < made.size(); ++i) {
      const Value& old = graph[node.outputs[i]];
      LS_CHECK(made[i].dtype() == old.dtype && made[i].shape() == old.shape, node.op, " at ", node.at.text(), ": its expansion gives ",
               made[i].text(), " for ", shape_text(old.dtype, old.shape));
      map[static_cast<size_t>(node.outputs[i])] = made[i].id();
    }
  }
  for (const auto& output : graph.outputs) builder->graph.add_output(output.kind, output.name, map[static_cast<size_t>(output.value)]);
  return again ? decompose(std::move(builder->graph), {}) : prune(builder->graph);
}

}  // namespace lockstep
