// The backends that law five compares with the reference evaluator.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "compiler/codegen/target.h"
#include "compiler/reference/host_tensor.h"
#include "core/ir/graph.h"

namespace lockstep::compiler::laws {

struct CompiledBackend {
  std::string name;
  // Compiles all graphs at once; afterwards run(i, inputs) gives the outputs of graph i.
  std::function<void(const std::vector<Graph>&)> prepare;
  std::function<std::vector<HostTensor>(size_t graph, const std::vector<HostTensor>& inputs)> run;
};

// The compiler's kernels and library calls on a target's device.
CompiledBackend compiled_backend(const std::string& name, Backend kind, const Target& target, int threads = 2,
                                 bool fusion = true);

// Why the compiled backends of this version cannot run a graph; "" if they can.
std::string not_taken(const Graph& graph);

}  // namespace lockstep::compiler::laws
