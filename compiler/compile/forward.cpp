// A compiled function without a loss.
#include "compiler/compile/forward.h"

#include <algorithm>

#include "compiler/autodiff/autodiff.h"
#include "compiler/codegen/target.h"
#include "compiler/compile/constant_ids.h"
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
    : Forward(
          state, batch, [&](const std::vector<Tensor>& inputs) { return std::vector{function(inputs)}; },
          options, at) {}

Forward::Forward(State& state, const std::vector<BatchField>& batch,
                 const std::function<std::vector<Tensor>(const std::vector<Tensor>&)>& function,
                 const CompileOptions& options, Here at)
    : state_(state), target_(options.backend == Backend::reference ? cpu_target() : target_of(options)) {
  if (const Mesh& mesh = state.mesh().words; mesh.size() != 1)
    throw UserError(str("[forward] ", line_of(at).text(),
                        ": a Forward runs on one rank, and the state is on the mesh ", text(mesh),
                        "; load the checkpoint into a state of one rank, or compile() a step whose metric is "
                        "what you look for"));
  stream_ = target_.device().make_stream();
  fields_ = batch;
  auto builder = std::make_shared<Builder>();
  builder->precision = state.policy();
  std::vector<Tensor> inputs;
  for (const auto& field : batch)
    inputs.emplace_back(builder,
                        builder->graph.add_input(InputKind::batch, field.name, field.dtype, field.shape));
  const std::vector<Tensor> results = [&] {
    Evaluation evaluation;
    return function(inputs);
  }();
  add_results(builder, results, line_of(at).text());
  const std::vector<IdRead> reads = id_reads(builder->graph, builder->id_reads);
  check_constant_ids(builder->graph, reads);
  ids_ = id_bounds(builder->graph, reads);
  PassContext context{state.mesh().words, [&state](const std::string& fqn) { return state.layout(fqn); },
                      options};
  // A copy, because tensors that the function kept still refer to the graph for their shapes.
  const Graph whole = differentiate(round_rows(builder->graph, context), context);
  graph_ = simplify(decompose(simplify(whole, context), context), context);
  if (options.backend == Backend::reference) {
    executable_ = std::make_unique<Executable>(graph_, nullptr, options);
    return;
  }
  graph_ = run_passes(std::move(graph_), phase_passes(), context);
  kernels_ = target_.compile(kernels_of(graph_, options), target_options(options));
  executable_ = std::make_unique<Executable>(graph_, kernels_, options);
}

// The graph outputs only the results: metrics would need a step over which to be summed.
void Forward::add_results(const std::shared_ptr<Builder>& builder, const std::vector<Tensor>& results,
                          const std::string& line) {
  auto refuse = [&](const std::string& what) {
    throw UserError(str("[forward] ", line, ": the function ", what));
  };
  Graph& graph = builder->graph;
  for (const auto& output : graph.outputs)
    if (output.kind == OutputKind::state)
      refuse(str("updates \"", output.name,
                 "\", and a forward changes nothing; leave optimizer and assign out"));
  for (const auto& input : graph.inputs)
    if (input.kind == InputKind::scalar && input.name.rfind("rng.", 0) != 0)
      refuse(str("reads the scalar \"", input.name,
                 "\", which an optimizer gives to a step; leave it out, or give the number as an input"));
  graph.outputs.clear();
  if (results.empty()) refuse("gave no result; it gives one or more");
  for (const Tensor& result : results) {
    if (!result.defined() || result.builder() != builder)
      refuse("gave a tensor that is not of this call; compute the results from the function's inputs");
    const std::string name = results.size() == 1 ? "result" : str("result.", results_.size());
    results_.push_back({name, result.dtype(), result.shape()});
    graph.add_output(OutputKind::value, name, result.id());
  }
}

Forward::~Forward() = default;
Forward::Forward(Forward&&) noexcept = default;

// An input of the random generator, at an address that the device reads.
void* Forward::scalar(size_t input, const DrawnFrom& drawn) {
  const auto& of = graph_.inputs[input];
  const DType dtype = graph_[of.value].dtype;
  const int64_t value = of.name == "rng.seed"   ? static_cast<int64_t>(drawn.seed)
                        : of.name == "rng.step" ? drawn.number
                                                : 0;  // rng.sample: the batch begins with sample 0
  std::byte number[8] = {};
  if (is_float(dtype))
    set_double(dtype, number, 0, static_cast<double>(value));
  else
    set_int(dtype, number, 0, value);
  Buffer& there = scalars_.try_emplace(input, 16, target_.device().memory()).first->second;
  target_.device().copy(there.data(), number, size_of(dtype), *stream_);
  if (!target_.device().addressable()) stream_->synchronize();  // `number` goes out of scope here
  return there.data();
}

const void* Forward::run(const std::vector<void*>& batch) { return run(batch, {state_.seed(), runs_ + 1}); }

const void* Forward::run(const std::vector<void*>& batch, const DrawnFrom& drawn) {
  const auto reads_state = [](const auto& input) { return input.kind == InputKind::state; };
  if (!state_.has_values() && std::any_of(graph_.inputs.begin(), graph_.inputs.end(), reads_state))
    throw UserError(
        "[forward] the state has no values yet: materialize() draws initial ones, and takes what "
        "load_weights() or set() gave; call it first, or Checkpoint.resume(), or train");
  Device& device = target_.device();
  device.enter();
  for (const IdBound& bound : ids_)
    for (size_t f = 0; f < fields_.size(); ++f)
      if (bound.field == fields_[f].name)
        check_ids(bound, fields_[f].dtype, fields_[f].shape, batch.at(f), 0);
  std::vector<void*> inputs;
  for (size_t i = 0; i < graph_.inputs.size(); ++i) {
    const auto& input = graph_.inputs[i];
    size_t f = 0;
    while (f < fields_.size() && fields_[f].name != input.name) ++f;
    if (input.kind == InputKind::state) {
      inputs.push_back(state_.array(input.name).on(device));
    } else if (input.kind == InputKind::scalar) {
      inputs.push_back(scalar(i, drawn));
    } else if (device.addressable()) {
      inputs.push_back(batch.at(f));
    } else {
      const size_t bytes = numel(fields_.at(f).shape) * size_of(fields_[f].dtype);
      Buffer& there = batch_.try_emplace(f, bytes, device.memory()).first->second;
      device.copy(there.data(), batch.at(f), bytes, *stream_);
      inputs.push_back(there.data());
    }
  }
  executable_->run(inputs, *stream_);
  ++runs_;
  if (device.addressable()) return executable_->output(0);
  for (size_t i = 0; i < results_.size(); ++i) {
    const size_t bytes = numel(results_[i].shape) * size_of(results_[i].dtype);
    if (host_.size() <= i) host_.emplace_back(bytes, device.staging());
    device.copy(host_[i].data(), executable_->output(i), bytes, *stream_);
  }
  stream_->synchronize();
  return host_.front().data();
}

const void* Forward::result(size_t i) const {
  return target_.device().addressable() ? executable_->output(i) : host_.at(i).data();
}

}  // namespace lockstep::compiler
