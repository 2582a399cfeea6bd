// Verifies the structure of a graph: every id is valid, defined once and before it is read; producers and
// outputs agree. core/ops verifies types.
#pragma once

#include <string_view>

#include "core/ir/graph.h"

namespace lockstep {

// InternalError naming `after` (a pass) and the node when the structure is broken.
void verify_structure(const Graph& graph, std::string_view after);

}  // namespace lockstep
