// Which moments lie in the host's memory under CompileOptions::offload_moments.
#pragma once

#include <set>
#include <string>

#include "core/ir/graph.h"
#include "core/nn/state.h"

namespace lockstep::compiler {

// Of the typed program of a step: FQNs of moments that one update reads and replaces and nothing else reads.
// Numbers without dims, rows of sparse tables, and what several ranks of `mesh` hold alike, which are
// compared on the device, stay there. UserError where updates leave no moment to the host; a step without
// updates has none.
std::set<std::string> moments_on_host(const Graph& whole, const State& state, const Mesh& mesh);

}  // namespace lockstep::compiler
