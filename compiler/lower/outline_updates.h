// Outlines the arithmetic that replaces state into update nodes.
#pragma once

#include "compiler/pass/pass.h"

namespace lockstep::compiler {

// Arithmetic that a step assigns to a tensor of the state (core/nn/assign.h) becomes an `update` node. The
// elementwise arithmetic before the assignment is its body; the values that the body reads are its inputs
// (see update_groups).
// The same holds for arithmetic on gradients and state whose whole result the tail reads, such as the
// momentum that Muon orthogonalises. The update that replaces the state returns that result, too; without
// one, an update that replaces nothing does.
// Updates come after all nodes that do not read them, and after all nodes that read the state that they
// replace in place. UserError if old and new values are needed at once.
Graph outline_updates(Graph graph, const PassContext& context);

}  // namespace lockstep::compiler
