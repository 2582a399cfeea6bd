// Which moments are stored in host memory under CompileOptions::offload_moments.
#pragma once

#include <set>
#include <string>

#include "core/ir/graph.h"
#include "core/nn/state.h"

namespace lockstep::compiler {

// From the typed program of a step: FQNs of moments that one update reads and replaces and nothing else
// reads. Numbers without dims, rows of sparse tables, and replicas on several ranks of `mesh` stay on the
// device, where replicas are compared. UserError if updates leave no moment for the host; a step without
// updates returns none.
std::set<std::string> moments_on_host(const Graph& whole, const State& state, const Mesh& mesh);

}  // namespace lockstep::compiler
