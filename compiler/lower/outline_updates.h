// Makes updates of the arithmetic that replaces state.
#pragma once

#include "compiler/pass.h"

namespace lockstep::compiler {

// What a step assigns to a tensor of the state (core/nn/assign.h) becomes an `update` node: the element by
// element arithmetic before it is its body, and what that reads its inputs. Assignments that share
// arithmetic, or of which one reads what the other replaces, are one node. Updates come behind all that does
// not read them; where an update of another kind replaces a state in place, those that read its old value
// come before. UserError where old and new values are wanted at once.
Graph outline_updates(Graph graph, const PassContext& context);

}  // namespace lockstep::compiler
