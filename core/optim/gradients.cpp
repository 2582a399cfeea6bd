// Appends the `grad` node of a loss.
#include "core/optim/gradients.h"

#include <algorithm>
#include <map>

#include "core/base/error.h"
#include "core/nn/scope.h"

namespace lockstep {

namespace {
// The rows of a sparse table that a loss reads, in the order of the reads.
struct Taken {
  std::vector<Tensor> ids, rows;
};
Taken taken_of(const Parameter& table, const std::vector<Loss>& losses) {
  const auto& builder = losses[0].sum.builder();
  const ValueId whole = table(losses[0].sum).id();
  const Graph& graph = builder->graph;
  PerValue<bool> needed(graph.values.size());
  for (const Loss& loss : losses) needed[loss.sum.id()] = true;
  for (NodeId n : graph.node_ids().backward()) {
    const Node& node = graph.node(n);
    if (std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId v) { return needed[v]; }))
      for (ValueId v : node.inputs) needed[v] = true;
  }
  Taken out;
  for (const Node& node : graph.nodes)
    if ((node.op == ops::embedding || node.op == ops::take) && node.inputs[0] == whole &&
        needed[node.outputs[0]])
      out.ids.emplace_back(builder, node.inputs[1]), out.rows.emplace_back(builder, node.outputs[0]);
  return out;
}

// The gradient rows of all micro-batches, summed to one row per id.
std::vector<Tensor> sum_rows(const Parameter& table, const Taken& taken, const std::vector<Tensor>& gradients,
                             Here at) {
  std::vector<Tensor> ids, rows;
  for (const Tensor& each : taken.ids) ids.push_back(reshape(each, {-1}, at));
  for (const Tensor& each : gradients) rows.push_back(reshape(each, {-1, table.shape()[1]}, at));
  return apply(ops::lane_rows, {concat(ids, 0, at), concat(rows, 0, at)},
               {{"of", Attr(table.fqn())},
                {"rows", table.shape()[0]},
                {"micro_batches", ids[0].builder()->micro_batches}},
               at);
}
}  // namespace

Gradients grad(const Loss& loss, const std::vector<Parameter>& parameters, Here at) {
  auto fail = [&](const std::string& what) {
    throw UserError(str("[grad] ", line_of(at).text(), ": ", what));
  };
  const std::vector<Loss> terms = terms_of("grad", loss, at);
  if (parameters.empty())
    fail("there are no parameters; construct the model before, and pass state.parameters()");
  const Tensor beside = terms[0].sum;
  const auto& builder = beside.builder();
  std::vector<Tensor> inputs;
  for (const Loss& term : terms) inputs.push_back(term.sum), inputs.push_back(term.count);
  const std::string& scaled_by = builder->loss_scale;
  if (!scaled_by.empty()) {
    const Tensor scale(builder, builder->state_input(scaled_by, DType::f32, {1}));
    inputs.push_back(reshape(scale, {}, at));
  }
  const size_t first = inputs.size();
  std::map<size_t, Taken> taken;
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (!parameters[i].spec().sparse) {
      inputs.push_back(parameters[i](beside));
      continue;
    }
    taken[i] = taken_of(parameters[i], terms);
    if (taken[i].rows.empty())
      fail(str("the loss takes no rows of the sparse table \"", parameters[i].fqn(), "\" (",
               parameters[i].spec().at.text(),
               "); read it by embedding() or take(), or leave it out of the parameters"));
    if (builder->micro_batches < 1)
      fail(str("\"", parameters[i].fqn(), "\" is sparse, and its gradient is known only in a compiled step"));
  }
  int64_t rows = 0;
  for (const auto& [i, of] : taken)
    inputs.insert(inputs.end(), of.rows.begin(), of.rows.end()), rows += static_cast<int64_t>(of.rows.size());
  Attrs attrs;
  if (terms.size() > 1) attrs.set("terms", static_cast<int64_t>(terms.size()));
  if (!scaled_by.empty()) attrs.set("scaled", true);
  if (rows > 0) attrs.set("rows", rows);
  std::vector<Tensor> made = apply(ops::grad, inputs, attrs, at);
  Gradients out{parameters, {}, {}};
  auto next = made.begin(), next_rows = made.end() - rows;
  LS_CHECK(made.size() + first == inputs.size());
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto found = taken.find(i);
    if (found == taken.end()) {
      out.values.push_back(*next++), out.ids.emplace_back();
      continue;
    }
    const auto count = static_cast<std::ptrdiff_t>(found->second.rows.size());
    const auto summed = sum_rows(parameters[i], found->second, {next_rows, next_rows + count}, at);
    out.ids.push_back(summed[0]), out.values.push_back(summed[1]);
    next_rows += count;
  }
  return out;
}

}  // namespace lockstep
