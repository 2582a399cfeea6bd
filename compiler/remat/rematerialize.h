// Rematerialise: the backward pass recomputes values that the forward pass does not save.
#pragma once

#include "compiler/pass/pass.h"

namespace lockstep::compiler {

// Gives up the saved values `context.recomputed` (ids of this graph, from remat_choices). Backward nodes then
// read copies of the forward nodes. The copies start from values that are still saved and come right before
// their first reader. They compute the same bits, because they are the same ops on the same values. This
// includes dropout, whose random numbers depend on indices.
//
// Each value that copies read passes through a barrier: a reshape to its own shape with the attribute
// again=true. It costs nothing (the planner aliases it). It prevents later passes from merging copies with
// originals: simplify sees other inputs, fusion other buffers.
Graph rematerialize(Graph graph, const PassContext& context);

}  // namespace lockstep::compiler
