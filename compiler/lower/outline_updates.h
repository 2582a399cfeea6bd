// Makes updates of the arithmetic that replaces state.
#pragma once

#include "compiler/pass.h"

namespace lockstep::compiler {

// What a step assigns to a tensor of the state (core/nn/assign.h) becomes an `update` node: the element by
// element arithmetic before it is its body, and what that reads its inputs (see update_groups). So does
// arithmetic on gradients and state of which the tail reads the result whole, as the momentum that Muon makes
// orthogonal: the update that replaces the state gives that result, too, or one that replaces nothing does.
// Updates come behind all that does not read them, and behind all that reads the state that they replace in
// place. UserError where old and new values are wanted at once.
Graph outline_updates(Graph graph, const PassContext& context);

}  // namespace lockstep::compiler
