// Reverse mode over the op table. Gradients of a value with several readers are added in reverse order of the
// readers: a fixed order.
#include "compiler/autodiff/autodiff.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/ir/walk.h"
#include "core/ops/functions.h"

namespace lockstep::compiler {

std::vector<Tensor> vjp_graph(const std::shared_ptr<Builder>& builder, ValueId of, Tensor seed,
                              const std::vector<ValueId>& roots) {
  Graph& graph = builder->graph;
  auto reached = depends_on(graph, roots);  // values computed from a root
  PerValue<Tensor> gradient(graph.values.size());
  gradient[of] = seed;
  for (NodeId n : graph.node_ids().backward()) {
    if (n > graph[of].producer) continue;
    Node node = graph.node(n);  // a copy: the vector grows below
    std::vector<Tensor> grads, in, out;
    bool any = false, wanted = false;
    for (ValueId v : node.outputs) {
      grads.push_back(gradient[v]);
      any = any || grads.back().defined();
    }
    std::vector<bool> wants;
    for (ValueId v : node.inputs) {
      wants.push_back(reached[v] && is_float(graph[v].dtype));
      wanted = wanted || wants.back();
    }
    if (!any || !wanted) continue;
    const Op& row = op_row(node.op);
    if (!row.vjp)
      throw UserError(str("[", node.op, "] ", node.at.text(),
                          ": this op has no gradient; a parameter reaches the loss through it"));
    for (ValueId v : node.inputs) in.emplace_back(builder, v);
    for (ValueId v : node.outputs) out.emplace_back(builder, v);
    AtLine line(node.at);
    auto made = row.vjp({in, out, grads, wants, node.attrs});
    LS_CHECK(made.size() == node.inputs.size(), node.op, ": the gradient rule gives ", made.size(),
             " gradients for ", node.inputs.size(), " inputs");
    for (size_t i = 0; i < made.size(); ++i) {
      if (!made[i].defined() || !wants[i]) continue;
      const Value& input = graph[node.inputs[i]];
      LS_CHECK(made[i].shape() == input.shape && made[i].dtype() == input.dtype, node.op, " at ",
               node.at.text(), ": gradient of input ", i, " is ", made[i].text(), ", the input is ",
               shape_text(input.dtype, input.shape));
      Tensor& slot = gradient[node.inputs[i]];
      slot = slot.defined() ? apply1(ops::add, {slot, made[i]}) : made[i];
    }
  }
  std::vector<Tensor> out;
  for (ValueId root : roots) out.push_back(gradient[root]);
  return out;
}

Graph differentiate(Graph graph, const PassContext&) {
  auto builder = std::make_shared<Builder>();
  Rewriter rewriter(graph);
  builder->graph = std::move(rewriter.graph());
  // The rewriter maps old ids; the builder's graph is where nodes are appended.
  PerValue<ValueId> map(graph.values.size(), kNoValue);
  for (size_t i = 0; i < graph.inputs.size(); ++i)
    map[graph.inputs[i].value] = builder->graph.inputs[i].value;
  for (const Node& node : graph.nodes) {
    std::vector<ValueId> inputs;
    for (ValueId v : node.inputs) inputs.push_back(map[v]);
    if (node.op != ops::grad) {
      std::vector<std::pair<DType, Shape>> types;
      for (ValueId v : node.outputs) types.emplace_back(graph[v].dtype, graph[v].shape);
      auto made = builder->graph.append(node.op, inputs, node.attrs, types, node.at);
      for (size_t i = 0; i < made.size(); ++i) map[node.outputs[i]] = made[i];
      continue;
    }
    AtLine line(node.at);
    Tensor sum(builder, inputs[0]), count(builder, inputs[1]);
    Tensor total = sum_counts(count);
    Tensor seed = 1.0 / convert(total, sum.dtype());
    std::vector<ValueId> roots(inputs.begin() + 2, inputs.end());
    auto gradients = vjp_graph(builder, inputs[0], seed, roots);
    for (size_t i = 0; i < roots.size(); ++i) {
      Tensor parameter(builder, roots[i]);
      Tensor mine = gradients[i].defined() ? gradients[i] : full_like(parameter, 0);
      map[node.outputs[i]] = apply1(ops::sum_lanes, {mine}).id();
    }
  }
  for (const auto& output : graph.outputs)
    builder->graph.add_output(output.kind, output.name, map[output.value]);
  return prune(builder->graph);
}

}  // namespace lockstep::compiler
