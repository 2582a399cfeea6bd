// Decompose: composites become primitives, except those that the target claims for a library kernel or a
// kernel of its own.
#pragma once

#include "compiler/pass.h"

namespace lockstep::compiler {

Graph decompose(Graph graph, const PassContext& context);

}  // namespace lockstep::compiler
