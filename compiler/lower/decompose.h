// Decompose: composites become primitives, except those that a backend claims for a library kernel or a kernel of its own.
#pragma once

#include <set>
#include <string>

#include "compiler/pass.h"

namespace lockstep {

// Composites that the CPU backends keep whole.
const std::set<std::string>& claimed_ops();

Graph decompose(Graph graph, const PassContext& context);

}  // namespace lockstep
