// The backends that law five compares with the reference evaluator.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "compiler/run/host_tensor.h"
#include "core/ir/graph.h"

namespace lockstep::sweep {

struct Backend {
  std::string name;
  // Outputs of the graph, in order, for inputs in the order of graph.inputs.
  std::function<std::vector<HostTensor>(const Graph&, const std::vector<HostTensor>&)> run;
};

// Every backend but the reference.
inline std::vector<Backend> backends() { return {}; }

}  // namespace lockstep::sweep
