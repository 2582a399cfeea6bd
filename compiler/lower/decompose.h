// Decompose: expands composites into primitives, except those that the target claims for a library call or
// its own kernel.
#pragma once

#include "compiler/pass/pass.h"

namespace lockstep::compiler {

Graph decompose(Graph graph, const PassContext& context);

}  // namespace lockstep::compiler
