// Nodes of gradients: vjp, which autodiff expands, and custom_gradient, an identity between a function's
// outputs and their readers.
#include "core/functions/gradients.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/functions/creation.h"
#include "core/functions/lanes.h"
#include "core/functions/loss_sums.h"
#include "core/functions/operators.h"
#include "core/functions/pointwise.h"
#include "core/ir/walk.h"
#include "core/ops/checks.h"

namespace lockstep {

using namespace functions;

std::vector<Tensor> grad(Tensor y, const std::vector<Tensor>& inputs, Tensor dy, Here at) {
  need("grad", {y, dy}, at);
  if (inputs.empty()) refuse("grad", {y}, at, "there are no inputs to differentiate with respect to");
  need("grad", inputs, at);
  if (!is_float(y.dtype()))
    refuse("grad", {y}, at,
           str("y is ", y.text(), ": integers have no gradient; convert what it is made of?"));
  if (has_policy(y) && is_float(dy.dtype())) dy = convert(dy, y.dtype(), at);
  if (dy.dtype() != y.dtype() || dy.shape() != y.shape())
    refuse("grad", {y}, at, str("dy is ", dy.text(), ", y is ", y.text(), "; they have one type"));
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!is_float(inputs[i].dtype()))
      refuse("grad", {y}, at,
             str("input ", i, " is ", inputs[i].text(),
                 ": only floats have a gradient; convert it before y is computed"));
  std::vector<Tensor> all{y, dy};
  all.insert(all.end(), inputs.begin(), inputs.end());
  return apply(ops::vjp, all, {}, at);
}
std::vector<Tensor> grad(Tensor y, const std::vector<Tensor>& inputs, Here at) {
  need("grad", {y}, at);
  if (!is_float(y.dtype())) return grad(y, inputs, y, at);  // refused
  return grad(y, inputs, full_like(y, 1, at), at);
}
std::vector<Tensor> grad(const Loss& loss, const std::vector<Tensor>& inputs, Here at) {
  const std::vector<Loss> terms = terms_of("grad", loss, at);
  InFunction line(terms[0].sum, at);
  auto share = [&](const Loss& of) { return 1.0 / convert(sum_counts(of.count, at), of.sum.dtype(), at); };
  if (terms.size() == 1) return grad(terms[0].sum, inputs, share(terms[0]), at);
  Tensor all = terms[0].sum * share(terms[0]);
  for (size_t t = 1; t < terms.size(); ++t) all += terms[t].sum * share(terms[t]);
  return grad(all, inputs, at);
}

CustomGradient::CustomGradient(ForwardFunction forward, BackwardFunction backward)
    : forward_(std::move(forward)), backward_(std::move(backward)) {}
CustomGradient custom_gradient(ForwardFunction forward, BackwardFunction backward) {
  return {std::move(forward), std::move(backward)};
}

std::vector<Tensor> CustomGradient::operator()(const std::vector<Tensor>& inputs, Here at) const {
  if (inputs.empty()) refuse("custom_gradient", inputs, at, "it has no inputs");
  need("custom_gradient", inputs, at);
  if (!forward_ || !backward_)
    refuse("custom_gradient", inputs, at,
           str("its ", forward_ ? "backward" : "forward", " function is empty"));
  const Computed made = forward_(inputs);
  if (made.outputs.empty()) refuse("custom_gradient", inputs, at, "its forward function gives no outputs");
  std::vector<Tensor> stand_ins;
  for (size_t i = 0; i < made.outputs.size(); ++i) {
    const Tensor& out = made.outputs[i];
    if (!out.defined() || !is_float(out.dtype()))
      refuse("custom_gradient", inputs, at,
             str("output ", i, " of its forward function is ", out.defined() ? out.text() : "an empty Tensor",
                 "; outputs are floats, and integers that backward needs are saved"));
    stand_ins.push_back(full_like(out, 0, at));
  }
  std::vector<Tensor> gradients = backward_(made.saved, stand_ins);
  if (gradients.size() != inputs.size())
    refuse("custom_gradient", inputs, at,
           str("its backward function gives ", gradients.size(), " gradients for ", inputs.size(),
               " inputs; give one per input, an empty Tensor where there is none"));
  std::vector<Tensor> all = made.outputs;
  all.insert(all.end(), inputs.begin(), inputs.end());
  all.insert(all.end(), stand_ins.begin(), stand_ins.end());
  std::vector<int64_t> given;
  for (size_t i = 0; i < inputs.size(); ++i) {
    given.push_back(gradients[i].defined());
    if (!gradients[i].defined()) continue;
    if (!is_float(inputs[i].dtype()))
      refuse("custom_gradient", inputs, at,
             str("its backward function gives a gradient for input ", i, ", which is ", inputs[i].text(),
                 "; give an empty Tensor for integers"));
    if (has_policy(inputs[i]) && is_float(gradients[i].dtype()))
      gradients[i] = convert(gradients[i], inputs[i].dtype(), at);
    if (gradients[i].dtype() != inputs[i].dtype() || gradients[i].shape() != inputs[i].shape())
      refuse("custom_gradient", inputs, at,
             str("its backward function gives ", gradients[i].text(), " for input ", i, ", which is ",
                 inputs[i].text(), "; a gradient has the type of its input"));
    all.push_back(gradients[i]);
  }
  return apply(ops::custom_gradient, all,
               {{"outputs", static_cast<int64_t>(made.outputs.size())},
                {"inputs", static_cast<int64_t>(inputs.size())},
                {"gradients", given}},
               at);
}

namespace {
// Nodes that are computed from `changed` and needed for `wanted`, ascending.
std::vector<NodeId> between(const Graph& graph, const std::vector<ValueId>& changed,
                            const std::vector<ValueId>& wanted) {
  const PerValue<bool> reached = depends_on(graph, changed);
  PerValue<bool> seen(graph.values.size());
  PerNode<bool> taken(graph.nodes.size());
  std::vector<ValueId> open = wanted;
  while (!open.empty()) {
    const ValueId v = open.back();
    open.pop_back();
    if (seen[v] || !reached[v] || !graph[v].producer.valid()) continue;
    seen[v] = true;
    if (std::find(changed.begin(), changed.end(), v) != changed.end()) continue;
    taken[graph[v].producer] = true;
    for (ValueId input : graph.producer(v).inputs) open.push_back(input);
  }
  std::vector<NodeId> out;
  for (NodeId n : graph.node_ids())
    if (taken[n]) out.push_back(n);
  return out;
}
}  // namespace

// Repeats the nodes of the backward function on the actual gradients.
std::vector<Tensor> gradients_of_ones_own(const VjpContext& c) {
  const auto outputs = static_cast<size_t>(c.attrs.integer("outputs"));
  const auto& given = c.attrs.list("gradients");
  const std::shared_ptr<Builder> builder = c.in[0].builder();
  Graph& graph = builder->graph;
  std::vector<ValueId> stand_ins, wanted;
  PerValue<ValueId> map(graph.values.size());
  for (ValueId v : graph.value_ids()) map[v] = v;
  for (size_t o = 0; o < outputs; ++o) {
    stand_ins.push_back(c.in[outputs + given.size() + o].id());
    if (c.grad[o].defined()) map[stand_ins.back()] = c.grad[o].id();  // else the placeholder's zeros
  }
  for (size_t i = 2 * outputs + given.size(); i < c.in.size(); ++i) wanted.push_back(c.in[i].id());
  for (NodeId n : between(graph, stand_ins, wanted)) {
    const Node node = graph.node(n);  // a copy: the vector grows
    std::vector<ValueId> inputs;
    std::vector<std::pair<DType, Shape>> types;
    for (ValueId v : node.inputs) inputs.push_back(map[v]);
    for (ValueId v : node.outputs) types.emplace_back(graph[v].dtype, graph[v].shape);
    const auto made = graph.append(node.op, inputs, node.attrs, types, node.at);
    graph.nodes.back().body = node.body;
    for (size_t i = 0; i < made.size(); ++i) map[node.outputs[i]] = made[i];
  }
  std::vector<Tensor> out(c.in.size());
  for (size_t i = 0, next = 0; i < given.size(); ++i)
    if (given[i]) out[outputs + i] = Tensor(builder, map[wanted[next++]]);
  return out;
}

}  // namespace lockstep
