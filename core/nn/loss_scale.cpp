// Gives grad() the name of the scale, and appends the scale's update after the step.
#include "core/nn/loss_scale.h"

#include "core/ir/walk.h"
#include "core/table/updates.h"

namespace lockstep {

namespace {
// The scale stays within these bounds, so its reciprocal and quotients by it are exact.
constexpr double kSmallest = 0x1p-60, kLargest = 0x1p60;

// The summed rows of sparse tables, computed from the last outputs of a `grad` node.
std::vector<Tensor> rows_of(const std::shared_ptr<Builder>& builder, const Node& grad) {
  const PerValue<bool> made = depends_on(builder->graph, grad.outputs);
  std::vector<Tensor> out;
  for (const Node& node : builder->graph.nodes)
    if (node.op == ops::lane_rows && made[node.inputs[1]]) out.emplace_back(builder, node.outputs[1]);
  return out;
}

// 1 if all gradients of the step are finite, else 0: f32 []. Empty without gradients.
Tensor all_finite(const std::shared_ptr<Builder>& builder) {
  Tensor out;
  for (size_t n = 0; n < builder->graph.nodes.size(); ++n) {
    const Node node = builder->graph.nodes[n];  // a copy: the vector grows
    if (node.op != ops::grad || !node.attrs.flag("scaled")) continue;
    const auto of_rows = node.attrs.has("rows") ? static_cast<size_t>(node.attrs.integer("rows")) : 0;
    std::vector<Tensor> gradients;
    for (size_t o = 0; o + of_rows < node.outputs.size(); ++o)
      gradients.emplace_back(builder, node.outputs[o]);
    for (const Tensor& rows : rows_of(builder, node)) gradients.push_back(rows);
    AtLine line(node.at);
    Tensor finite = convert(isfinite(apply1(ops::global_norm, gradients)), DType::f32);
    out = out.defined() ? out * finite : finite;
  }
  return out;
}

// scale, good steps, finite -> the next two.
Graph next_scale(const LossScale& how) {
  auto builder = std::make_shared<Builder>();
  auto input = [&](InputKind kind, const char* name, const Shape& shape) {
    return Tensor(builder, builder->graph.add_input(kind, name, DType::f32, shape));
  };
  const Shape many{kUpdateElements};
  Tensor scale = input(InputKind::value, "state0", many), good = input(InputKind::value, "state1", many);
  Tensor finite = broadcast_to(input(InputKind::scalar, "scalar2", {}), many) > 0.5;
  Tensor next = good + 1.0, full_run = next >= static_cast<double>(how.interval);
  Tensor larger = clamp(scale * how.growth, kSmallest, kLargest);
  Tensor smaller = clamp(scale * how.backoff, kSmallest, kLargest);
  Tensor none = full_like(good, 0);
  Tensor made[] = {where(finite, where(full_run, larger, scale), smaller),
                   where(finite, where(full_run, none, next), none)};
  for (const Tensor& value : made) builder->graph.add_output(OutputKind::value, "out", value.id());
  return std::move(builder->graph);
}
}  // namespace

Loss with_loss_scale(const LossScale& how, const std::vector<Tensor>& batch,
                     const std::function<Loss(const std::vector<Tensor>& batch)>& step) {
  const auto builder = batch.at(0).builder();
  builder->loss_scale = kLossScale;
  Loss loss = step(batch);
  const Tensor finite = all_finite(builder);
  if (!finite.defined()) return loss;
  Graph& graph = builder->graph;
  std::vector<Tensor> inputs;
  for (const char* fqn : {kLossScale, kGoodSteps})
    inputs.emplace_back(builder, builder->state_input(fqn, DType::f32, {1}));
  inputs.push_back(finite);
  const SourceLine at = graph.nodes.back().at;
  const auto made = apply_update(inputs, {0, 1}, std::make_shared<Graph>(next_scale(how)), at, true);
  graph.add_output(OutputKind::state, kLossScale, made[0].id());
  graph.add_output(OutputKind::state, kGoodSteps, made[1].id());
  return loss;
}

}  // namespace lockstep
