// The backends that law five compares with the reference evaluator.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "compiler/codegen/target.h"
#include "compiler/reference/host_tensor.h"
#include "core/ir/graph.h"

namespace lockstep::sweep {

struct Backend {
  std::string name;
  // Compiles all graphs at once; afterwards run(i, inputs) gives the outputs of graph i.
  std::function<void(const std::vector<Graph>&)> prepare;
  std::function<std::vector<compiler::HostTensor>(size_t graph,
                                                  const std::vector<compiler::HostTensor>& inputs)>
      run;
};

// Every backend but the reference: native, and eager (op by op).
// The compiler's kernels and library calls on a target's device.
Backend compiled_backend(const std::string& name, lockstep::compiler::Backend kind,
                         const compiler::Target& target, int threads = 2);

std::vector<Backend> backends();
// Why the compiled backends of this version do not take a graph; "" when they do.
std::string not_taken(const Graph& graph);

}  // namespace lockstep::sweep
