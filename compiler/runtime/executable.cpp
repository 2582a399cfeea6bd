// Runs a block without a step.
#include "compiler/runtime/executable.h"

#include <set>
#include <string>

#include "core/base/error.h"
#include "core/ir/print.h"

namespace lockstep::compiler {

Executable::Executable(Graph graph, std::shared_ptr<const KernelSet> kernels, const CompileOptions& options)
    : block_(plan_block({std::move(graph)}, options)),
      options_(options),
      runner_(block_, std::move(kernels), options_, nullptr) {
  const Target& target = options.backend == Backend::reference ? cpu_target() : target_of(options);
  arena_ = Buffer(block_.own_bytes, target.device().memory());
  memory_.own = arena_.data();
  target.finish_library_calls();
}

void Executable::run(const std::vector<void*>& inputs, Stream& stream) {
  LS_CHECK(inputs.size() == block_.graph.inputs.size(), inputs.size(), " inputs for ",
           block_.graph.inputs.size());
  memory_.inputs = inputs;
  runner_.run(0, static_cast<int>(block_.calls.size()), memory_, stream);
}

const void* Executable::output(size_t index) const { return BlockRunner::at(block_.outputs[index], memory_); }

std::vector<KernelSource> kernels_of(const Graph& graph, const CompileOptions& options) {
  std::vector<KernelSource> out;
  std::set<std::string> bodies;
  for (const Node& node : graph.nodes)
    if (node.body && bodies.insert(print(*node.body, {.source_lines = false})).second)
      out.push_back(target_of(options).generate_together(*node.body, options.together));
  return out;
}

}  // namespace lockstep::compiler
