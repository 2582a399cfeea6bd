// Runs updates by generated multi-tensor kernels, or by the reference evaluator.
#include "compiler/runtime/update.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <tuple>

#include "compiler/codegen/target.h"
#include "compiler/reference/evaluate.h"
#include "core/base/error.h"
#include "core/ir/print.h"
#include "core/ops/op.h"
#include "core/table/updates.h"

namespace lockstep::compiler {

namespace {
// `to`: `count` zeros.
void spread(const ByRows::Table& from, int64_t count, float* to) {
  for (int64_t k = 0; k < from.count; ++k)
    if (const int64_t at = (from.ids[k] - from.first) * from.width; at >= 0 && at < count)
      std::copy_n(from.rows + k * from.width, from.width, to + at);
}
bool is_half(const UpdateCall& call, size_t input) {
  return std::find(call.halves.begin(), call.halves.end(), static_cast<int>(input)) != call.halves.end();
}
// By the reference evaluator, synchronously.
void evaluate_update(const UpdateCall& call) {
  const Graph& graph = *call.graph;
  if (call.node->op != ops::convert && !is_always_made(*call.node)) {
    const std::vector<ValueId> gates = update_gates(graph);
    for (size_t k = 0; k < gates.size(); ++k) {
      const double gate = get_double(graph[gates[k]].dtype, call.gates.at(2 * k), 0);
      if (!is_within(static_cast<float>(gate), *static_cast<const float*>(call.gates.at(2 * k + 1)))) return;
    }
  }
  std::vector<HostTensor> inputs;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const Value& value = graph[call.node->inputs[i]];
    inputs.push_back(make_tensor(value.dtype, value.shape.empty() ? Shape{} : Shape{call.count}));
    if (static_cast<int>(i) == call.by_rows)
      spread(call.rows, call.count, reinterpret_cast<float*>(inputs.back().data.data()));
    else if (is_half(call, i))
      for (int64_t k = 0; k < call.count; ++k)
        inputs.back().set(k, get_double(DType::bf16, call.inputs[i], k));
    else
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
// The dtypes of the values that gate an update.
std::vector<DType> gates_of(const Graph& graph, const Node& node) {
  std::vector<DType> gates;
  if (node.op != ops::convert && !is_always_made(node))
    for (ValueId v : update_gates(graph)) gates.push_back(graph[v].dtype);
  return gates;
}
// Results of a kernel in addition to a node's outputs: an update's first output again in another dtype, and
// its largest magnitude in bf16.
struct Beside {
  std::optional<DType> copy = {};
  bool largest = false;
};
// The body of an update or convert node with these inputs in bf16.
Graph body_of(const Graph& graph, const Node& node, const Beside& beside, const std::vector<int>& halves) {
  const DType dtype = graph[node.inputs[0]].dtype;
  const std::vector<DType> gates = gates_of(graph, node);
  if (node.op == ops::convert) {
    Graph body = convert_body(dtype, graph[node.outputs[0]].dtype);
    if (!beside.copy) return beside.largest ? body_with_largest(body) : body;
    body = body_by_scale(body, *beside.copy, 0);
    body.outputs.erase(body.outputs.begin());  // nothing reads the bf16 output
    return body;
  }
  Graph body = gated_body(node.body ? *node.body : multi_tensor_body(node.op, node.attrs, dtype),
                          replaced_inputs(node), gates);
  body = body_of_halves(body, halves);
  LS_CHECK(beside.copy || !beside.largest, "the largest of a copy in bf16 that is not made");
  if (!beside.copy) return body;
  if (is_float8(*beside.copy)) return body_by_scale(body, *beside.copy, gates.size());
  const ValueId first = body.outputs[0].value;
  const Shape shape = body[first].shape;
  body.add_output(OutputKind::value, "copy",
                  body.append(ops::convert, {first}, {{"dtype", *beside.copy}}, {{*beside.copy, shape}})[0]);
  return beside.largest ? body_with_largest(body) : body;
}

// Caches kernels by the facts that determine their bodies: many tensors share one, and writing its source
// takes time.
class Kernels {
 public:
  explicit Kernels(const Target& target) : target_(target) {}
  const KernelSource& of(const Graph& graph, const Node& node, const Beside& beside,
                         const std::vector<int>& halves) {
    std::string key = str(node.op, text(node.attrs), beside.copy ? name(*beside.copy) : "",
                          beside.largest ? " largest" : "", halves);
    for (ValueId v : node.inputs) key += str(" ", name(graph[v].dtype));
    for (ValueId v : node.outputs) key += str(" ", name(graph[v].dtype));
    if (node.body) key += print(*node.body, {.source_lines = false});
    auto [made, fresh] = made_.try_emplace(std::move(key));
    if (fresh) made->second = target_.generate_multi_tensor(body_of(graph, node, beside, halves));
    return made->second;
  }
  std::vector<KernelSource> all() const {  // each once, by name
    std::map<std::string, KernelSource> out;
    for (const auto& [key, source] : made_) out.emplace(source.name, source);
    std::vector<KernelSource> list;
    for (auto& [name, source] : out) list.push_back(std::move(source));
    return list;
  }

 private:
  const Target& target_;
  std::map<std::string, KernelSource> made_;
};

// All updates of one kind in one launch. The kind is the op, attributes other than the tensor's own weight
// decay, scalars, and the input that has only rows.
struct Launch : ByRows {
  const MultiTensorKernel* kernel = nullptr;

  void add(const UpdateCall& call, const std::vector<void*>& elements) {
    if (call.by_rows >= 0) tables.push_back(call.rows);
    table.insert(table.end(), elements.begin(), elements.end());
    for (void* own : {call.scale, call.scale_before})
      if (own) table.push_back(own);
    for (void* output : call.outputs) table.push_back(output);
    for (void* output : {call.copy, call.largest})
      if (output) table.push_back(output);
    numels.push_back(call.count);
    if (call.node->attrs.has("weight_decay"))
      per_tensor.push_back(static_cast<float>(call.node->attrs.number("weight_decay")));
  }
  void enqueue(Stream& stream, int threads) const {
    if (!tables.empty()) return kernel->enqueue_by_rows(*this, stream, threads);
    kernel->enqueue(table.data(), numels.data(), per_tensor.data(), static_cast<int64_t>(numels.size()),
                    scalars.data(), stream, threads);
  }
};

std::vector<Launch> launches_of(const std::vector<UpdateCall>& calls, const KernelSet& kernels,
                                const Target& target) {
  Kernels sources(target);  // of one graph
  // Two optimizers have different scalars.
  std::map<std::tuple<std::string, std::vector<void*>, int>, Launch> out;
  for (const UpdateCall& call : calls) {
    std::vector<void*> scalars, elements;
    std::vector<size_t> sizes;
    size_t input = 0;
    for (size_t i = 0; i < call.inputs.size(); ++i) {
      const Value& value = (*call.graph)[call.node->inputs[i]];
      if (static_cast<int>(i) == call.by_rows) input = elements.size();
      (value.shape.empty() ? scalars : elements).push_back(call.inputs[i]);
      if (!value.shape.empty()) sizes.push_back(size_of(is_half(call, i) ? DType::bf16 : value.dtype));
    }
    for (ValueId v : call.node->outputs) sizes.push_back(size_of((*call.graph)[v].dtype));
    if (call.copy) sizes.push_back(size_of(call.copy_dtype));
    scalars.insert(scalars.end(), call.gates.begin(), call.gates.end());
    Beside beside{.largest = call.largest != nullptr};
    if (call.copy) beside.copy = call.copy_dtype;
    const std::string& kernel = sources.of(*call.graph, *call.node, beside, call.halves).name;
    Launch& launch = out[{kernel, scalars, call.by_rows}];
    launch.kernel = &kernels.find_multi_tensor(kernel);
    launch.scalars = scalars, launch.input = input, launch.element_size = std::move(sizes);
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
    for (const Launch& one : launches) one.enqueue(stream, threads);
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

std::vector<KernelSource> update_kernels(const Phases& phases, const CompileOptions& options,
                                         const KeptGradients& kept, bool for_float8) {
  std::map<std::string, Beside> updates;
  std::map<NodeId, Beside> converts;
  for (const auto& [state, dtype] : rounded_state(phases)) updates[state].copy = dtype;
  if (for_float8)
    for (const auto& updated : phases.own_rows.updated) {
      Beside &update = updates[updated.state], &convert = converts[updated.convert];
      update.largest = convert.largest = true;
      if (updated.by_scale()) update.copy = convert.copy = phases.whole[updated.rows].dtype;
    }
  Kernels sources(target_of(options));
  auto add = [&](const Node& node, const auto& besides, const auto& key) {
    const auto found = besides.find(key);
    sources.of(phases.whole, node, found == besides.end() ? Beside{} : found->second, halves_of(node, kept));
  };
  for (NodeId n : phases.head)
    if (const Node& node = phases.whole.node(n); node.op == ops::convert) add(node, converts, n);
  for (const Node& node : phases.whole.nodes)
    if (op_row(node.op).kind == OpKind::update && node.op != ops::put_rows) {
      std::string state;
      for (const auto& output : phases.whole.outputs)
        if (output.kind == OutputKind::state && output.value == node.outputs[0]) state = output.name;
      add(node, updates, state);
    }
  return sources.all();
}

}  // namespace lockstep::compiler
