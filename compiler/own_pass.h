// Registered passes, by name, and their execution in the pipeline.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/ir/graph.h"

namespace lockstep::compiler {

using OwnPass = std::function<Graph(Graph)>;

// Stores the pass under its name unless the name exists; returns the row after which the named pass runs.
// register_pass checks its arguments first.
std::string add_own_pass(const std::string& after, const std::string& name, OwnPass pass);
std::vector<std::string> own_pass_names();
// The passes of `wanted` that run after the row, in the order of `wanted`. UserError naming
// compile.extra_passes and the known passes if one was not registered.
struct NamedPass {
  std::string name;
  OwnPass pass;
};
std::vector<NamedPass> own_passes_after(const std::string& row, const std::vector<std::string>& wanted);
// Runs the pass and checks inputs, outputs and types. UserError that names the pass.
Graph run_own_pass(const NamedPass& pass, const Graph& graph);

}  // namespace lockstep::compiler
