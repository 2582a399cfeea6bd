// Updates by generated multi-tensor kernels, or by the reference evaluator.
#include "compiler/runtime/update.h"

#include <cmath>
#include <cstring>
#include <map>
#include <optional>

#include "compiler/codegen/target.h"
#include "compiler/reference/evaluate.h"
#include "core/base/error.h"
#include "core/ops/op.h"
#include "core/ops/updates.h"

namespace lockstep::compiler {

namespace {
// By the reference evaluator, at once.
void evaluate_update(const UpdateCall& call) {
  const Graph& graph = *call.graph;
  if (call.node->op != ops::convert && !is_always_made(*call.node)) {
    const std::vector<ValueId> gates = update_gates(graph);
    for (size_t k = 0; k < gates.size(); ++k) {
      const double gate = get_double(graph[gates[k]].dtype, call.gates.at(2 * k), 0);
      if (!(std::abs(static_cast<float>(gate)) <= *static_cast<const float*>(call.gates.at(2 * k + 1))))
        return;
    }
  }
  std::vector<HostTensor> inputs;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const Value& value = graph[call.node->inputs[i]];
    inputs.push_back(make_tensor(value.dtype, value.shape.empty() ? Shape{} : Shape{call.count}));
    std::memcpy(inputs.back().data.data(), call.inputs[i], inputs.back().bytes());
  }
  auto outputs = evaluate_node(graph, *call.node, inputs);
  for (size_t o = 0; o < outputs.size(); ++o)
    std::memcpy(call.outputs[o], outputs[o].data.data(), outputs[o].bytes());
}

Graph convert_body(DType from, DType to) {
  Graph body;
  ValueId x = body.add_input(InputKind::value, "x", from, {kUpdateElements});
  body.add_output(OutputKind::value, "y",
                  body.append(ops::convert, {x}, {{"dtype", to}}, {{to, {kUpdateElements}}})[0]);
  return body;
}
// The body of an update or convert node; with a copy, an update's first output once more in another dtype.
Graph body_of(const Graph& graph, const Node& node, std::optional<DType> copy) {
  const DType dtype = graph[node.inputs[0]].dtype;
  if (node.op == ops::convert) return convert_body(dtype, graph[node.outputs[0]].dtype);
  std::vector<DType> gates;
  if (!is_always_made(node))
    for (ValueId v : update_gates(graph)) gates.push_back(graph[v].dtype);
  Graph body = gated_body(node.body ? *node.body : multi_tensor_body(node.op, node.attrs, dtype),
                          replaced_inputs(node), gates);
  if (!copy) return body;
  const ValueId first = body.outputs[0].value;
  const Shape shape = body[first].shape;
  body.add_output(OutputKind::value, "copy",
                  body.append(ops::convert, {first}, {{"dtype", *copy}}, {{*copy, shape}})[0]);
  return body;
}

// All updates of one kind (op, attributes other than the tensor's own weight decay, scalars), in one launch.
struct Launch {
  const MultiTensorKernel* kernel = nullptr;
  std::vector<void*> table, scalars;
  std::vector<int64_t> numels;
  std::vector<float> per_tensor;

  void add(const UpdateCall& call, const std::vector<void*>& elements) {
    table.insert(table.end(), elements.begin(), elements.end());
    for (void* output : call.outputs) table.push_back(output);
    if (call.copy) table.push_back(call.copy);
    numels.push_back(call.count);
    if (call.node->attrs.has("weight_decay"))
      per_tensor.push_back(static_cast<float>(call.node->attrs.number("weight_decay")));
  }
};

std::vector<Launch> launches_of(const std::vector<UpdateCall>& calls, const KernelSet& kernels,
                                const Target& target) {
  std::map<std::pair<std::string, std::vector<void*>>, Launch> out;  // two optimizers have scalars each
  for (const UpdateCall& call : calls) {
    std::vector<void*> scalars, elements;
    for (size_t i = 0; i < call.inputs.size(); ++i)
      ((*call.graph)[call.node->inputs[i]].shape.empty() ? scalars : elements).push_back(call.inputs[i]);
    scalars.insert(scalars.end(), call.gates.begin(), call.gates.end());
    std::optional<DType> copy;
    if (call.copy) copy = call.copy_dtype;
    const std::string kernel = target.generate_multi_tensor(body_of(*call.graph, *call.node, copy)).name;
    Launch& launch = out[{kernel, scalars}];
    launch.kernel = &kernels.find_multi_tensor(kernel);
    launch.scalars = scalars;
    launch.add(call, elements);
  }
  std::vector<Launch> launches;
  for (auto& [key, launch] : out) launches.push_back(std::move(launch));
  return launches;
}
}  // namespace

std::function<void(Stream&)> bind_updates(const std::vector<UpdateCall>& calls,
                                          std::shared_ptr<const KernelSet> kernels,
                                          const CompileOptions& options) {
  if (!kernels)
    return [calls](Stream& stream) {
      stream.synchronize();
      for (const UpdateCall& call : calls) evaluate_update(call);
    };
  return [launches = launches_of(calls, *kernels, target_of(options)), kernels,
          threads = options.threads](Stream& stream) {
    for (const Launch& one : launches)
      one.kernel->enqueue(one.table.data(), one.numels.data(), one.per_tensor.data(),
                          static_cast<int64_t>(one.numels.size()), one.scalars.data(), stream, threads);
  };
}

std::map<std::string, DType> rounded_state(const Phases& phases) {
  std::map<std::string, DType> out;
  for (NodeId n : phases.head) {
    const Node& node = phases.whole.node(n);
    if (node.op != ops::convert) continue;
    for (const auto& input : phases.whole.inputs)
      if (input.value == node.inputs[0]) out[input.name] = phases.whole[node.outputs[0]].dtype;
  }
  return out;
}

std::vector<KernelSource> update_kernels(const Phases& phases, const CompileOptions& options) {
  const auto rounded = rounded_state(phases);
  std::map<std::string, KernelSource> made;
  auto add = [&](const Node& node, std::optional<DType> copy) {
    KernelSource source = target_of(options).generate_multi_tensor(body_of(phases.whole, node, copy));
    made.emplace(source.name, std::move(source));
  };
  for (NodeId n : phases.head)
    if (const Node& node = phases.whole.node(n); node.op == ops::convert) add(node, std::nullopt);
  for (const Node& node : phases.whole.nodes)
    if (op_row(node.op).kind == OpKind::update && node.op != ops::put_rows) {
      std::optional<DType> copy;
      for (const auto& output : phases.whole.outputs)
        if (output.kind == OutputKind::state && output.value == node.outputs[0])
          if (auto found = rounded.find(output.name); found != rounded.end()) copy = found->second;
      add(node, copy);
    }
  std::vector<KernelSource> out;
  for (auto& [name, source] : made) out.push_back(std::move(source));
  return out;
}

}  // namespace lockstep::compiler
