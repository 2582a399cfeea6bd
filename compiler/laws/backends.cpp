// Native and eager backends for the sweep of laws: graphs are lowered like a phase of a step, and all kernels
// are in one library.
#include "compiler/laws/backends.h"

#include <cstring>

#include "compiler/codegen/target.h"
#include "compiler/lower/decompose.h"
#include "compiler/pipeline.h"
#include "compiler/runtime/executable.h"
#include "core/base/error.h"
#include "core/ops/apply.h"
#include "core/ops/op.h"

namespace lockstep::compiler::laws {

namespace {
struct Compiled {
  std::vector<std::unique_ptr<Executable>> executables;
  std::vector<Graph> graphs;
};

// Expands updates as the multi-tensor kernel does.
Graph with_updates_expanded(const Graph& graph) {
  auto builder = std::make_shared<Builder>();
  PerValue<ValueId> map(graph.values.size(), kNoValue);
  for (const auto& input : graph.inputs)
    map[input.value] =
        builder->graph.add_input(input.kind, input.name, graph[input.value].dtype, graph[input.value].shape);
  for (const Node& node : graph.nodes) {
    std::vector<Tensor> inputs;
    for (ValueId v : node.inputs) inputs.emplace_back(builder, map[v]);
    const Op& row = op_row(node.op);
    auto made = row.kind == OpKind::update || node.op == "global_norm"
                    ? row.expand({inputs, node.attrs, builder})
                    : apply_at(node.op, inputs, node.attrs, node.at, builder);
    for (size_t i = 0; i < made.size(); ++i) map[node.outputs[i]] = made[i].id();
  }
  for (const auto& output : graph.outputs)
    builder->graph.add_output(output.kind, output.name, map[output.value]);
  return builder->graph;
}

}  // namespace

CompiledBackend compiled_backend(const std::string& name, Backend kind, const Target& target, int threads,
                                 bool fusion) {
  auto state = std::make_shared<Compiled>();
  CompileOptions options;
  options.backend = kind;
  options.threads = threads;
  options.fusion = fusion;
  options.target = &target;
  CompiledBackend backend;
  backend.name = name;
  backend.prepare = [state, options](const std::vector<Graph>& graphs) {
    PassContext context{Mesh{}, {}, options};
    std::vector<KernelSource> sources;
    for (const Graph& graph : graphs) {
      Graph lowered = run_passes(decompose(with_updates_expanded(graph), context), phase_passes(), context);
      for (auto& source : kernels_of(lowered, options)) sources.push_back(std::move(source));
      state->graphs.push_back(std::move(lowered));
    }
    auto kernels = target_of(options).compile(std::move(sources), target_options(options));
    for (const Graph& graph : state->graphs)
      state->executables.push_back(std::make_unique<Executable>(graph, kernels, options));
  };
  backend.run = [state, &target](size_t i, const std::vector<HostTensor>& inputs) {
    const Graph& graph = state->graphs.at(i);
    Device& device = target.device();
    auto stream = device.make_stream();
    std::vector<Buffer> buffers;
    std::vector<void*> pointers;
    for (const auto& input : inputs) {
      if (!device.addressable()) {
        buffers.emplace_back(input.bytes(), device.memory());
        device.copy(buffers.back().data(), input.data.data(), input.bytes(), *stream);
      }
      pointers.push_back(device.addressable() ? input.data.data() : buffers.back().data());
    }
    state->executables[i]->run(pointers, *stream);
    std::vector<HostTensor> out;
    for (size_t o = 0; o < graph.outputs.size(); ++o) {
      const Value& value = graph[graph.outputs[o].value];
      out.push_back(make_tensor(value.dtype, value.shape));
      device.copy(out.back().data.data(), state->executables[i]->output(o), out.back().bytes(), *stream);
    }
    stream->synchronize();
    return out;
  };
  return backend;
}

std::string not_taken(const Graph& graph) {
  for (const Node& node : graph.nodes) {
    OpKind kind = op_row(node.op).kind;
    if (kind == OpKind::lanes || kind == OpKind::collective || kind == OpKind::structural)
      return str(node.op, " needs other ranks or a pass before it");
  }
  return "";
}

}  // namespace lockstep::compiler::laws
