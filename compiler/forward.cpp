// A compiled function without a loss.
#include "compiler/forward.h"

#include "compiler/autodiff/autodiff.h"
#include "compiler/codegen/target.h"
#include "compiler/lower/decompose.h"
#include "compiler/lower/round_rows.h"
#include "compiler/lower/simplify.h"
#include "compiler/pipeline.h"
#include "core/base/error.h"
#include "core/nn/layers.h"

namespace lockstep::compiler {

Forward::Forward(State& state, const std::vector<BatchField>& batch,
                 const std::function<Tensor(const std::vector<Tensor>&)>& function,
                 const CompileOptions& options, Here at)
    : state_(state), target_(options.backend == Backend::reference ? cpu_target() : target_of(options)) {
  if (const Mesh& mesh = state.mesh().words; mesh.size() != 1)
    throw UserError(str("[forward] ", line_of(at).text(),
                        ": a Forward runs on one rank, and the state is on the mesh ", text(mesh),
                        "; load the checkpoint into a state of one rank, or compile() a step whose metric is "
                        "what you look for"));
  stream_ = target_.device().make_stream();
  auto builder = std::make_shared<Builder>();
  builder->precision = state.policy();
  std::vector<Tensor> inputs;
  for (const auto& field : batch)
    inputs.emplace_back(builder,
                        builder->graph.add_input(InputKind::batch, field.name, field.dtype, field.shape));
  const Tensor result = [&] {
    Evaluation evaluation;
    return function(inputs);
  }();
  shape_ = result.shape();
  builder->graph.add_output(OutputKind::value, "result", result.id());
  ids_ = id_bounds(builder->graph);
  PassContext context{state.mesh().words, [&state](const std::string& fqn) { return state.layout(fqn); },
                      options};
  const Graph whole = differentiate(round_rows(std::move(builder->graph), context), context);
  graph_ = simplify(decompose(simplify(whole, context), context), context);
  if (options.backend == Backend::reference) {
    executable_ = std::make_unique<Executable>(graph_, nullptr, options);
    return;
  }
  graph_ = run_passes(std::move(graph_), phase_passes(), context);
  kernels_ = target_.compile(kernels_of(graph_, options), target_options(options));
  executable_ = std::make_unique<Executable>(graph_, kernels_, options);
}
Forward::~Forward() = default;
Forward::Forward(Forward&&) noexcept = default;

const void* Forward::run(const std::vector<void*>& batch) {
  if (!state_.has_values())
    throw UserError(
        "[forward] the state has no values yet; load a checkpoint into it, materialize() it, or train first");
  Device& device = target_.device();
  device.enter();
  std::vector<void*> inputs;
  size_t next = 0;
  for (const auto& input : graph_.inputs) {
    LS_CHECK(input.kind == InputKind::batch || input.kind == InputKind::state, "a forward function reads ",
             input.name);
    for (const IdBound& bound : ids_)
      if (input.kind == InputKind::batch && bound.field == input.name)
        check_ids(bound, graph_[input.value].dtype, graph_[input.value].shape, batch.at(next), 0);
    if (input.kind == InputKind::state) {
      inputs.push_back(state_.array(input.name).on(device));
    } else if (device.addressable()) {
      inputs.push_back(batch.at(next++));
    } else {
      const Value& value = graph_[input.value];
      const size_t bytes = numel(value.shape) * size_of(value.dtype);
      if (batch_.size() <= next) batch_.emplace_back(bytes, device.memory());
      device.copy(batch_[next].data(), batch.at(next), bytes, *stream_);
      inputs.push_back(batch_[next++].data());
    }
  }
  executable_->run(inputs, *stream_);
  if (device.addressable()) return executable_->output(0);
  const Value& value = graph_[graph_.outputs[0].value];
  if (!result_) result_ = Buffer(numel(value.shape) * size_of(value.dtype), device.staging());
  device.copy(result_.data(), executable_->output(0), result_.bytes(), *stream_);
  stream_->synchronize();
  return result_.data();
}

}  // namespace lockstep::compiler
