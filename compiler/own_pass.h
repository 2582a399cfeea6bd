// Registered passes, by name, and how the pipeline runs them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/ir/graph.h"

namespace lockstep::compiler {

using OwnPass = std::function<Graph(Graph)>;

// Keeps it under its name, the first time; returns the row that the name stands behind. register_pass checks
// first.
std::string add_own_pass(const std::string& after, const std::string& name, OwnPass pass);
std::vector<std::string> own_pass_names();
// Those of `wanted` that stand behind the row, in its order. UserError naming compile.extra_passes and the
// known passes when one was not registered.
struct NamedPass {
  std::string name;
  OwnPass pass;
};
std::vector<NamedPass> own_passes_after(const std::string& row, const std::vector<std::string>& wanted);
// Runs it and checks inputs, outputs and types. UserError that names the pass.
Graph run_own_pass(const NamedPass& pass, const Graph& graph);

}  // namespace lockstep::compiler
