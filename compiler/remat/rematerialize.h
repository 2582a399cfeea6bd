// Rematerialise: what the forward pass does not keep, the backward pass recomputes.
#pragma once

#include "compiler/pass.h"

namespace lockstep::compiler {

// Gives up the saved values `context.recomputed` (ids of this graph, from remat_choices): backward nodes read
// copies of the forward nodes, which start from what is still saved and stand right before their first
// reader. Copies compute the same bits: they are the same ops on the same values, dropout included, whose
// numbers belong to indices.
//
// Each value that copies read is passed through a barrier: a reshape to its own shape with the attribute
// again=true. It costs nothing (the planner aliases it), and keeps later passes from merging copies with
// originals: simplify sees other inputs, fusion other buffers.
Graph rematerialize(Graph graph, const PassContext& context);

}  // namespace lockstep::compiler
