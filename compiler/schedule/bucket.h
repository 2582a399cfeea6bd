// Buckets and order: collectives of one kind become few, of about bucket_bytes each, in one global order,
// started early and waited for late.
#pragma once

#include "compiler/pass.h"

namespace lockstep::compiler {

// Gradient exchanges are merged in the order in which backward makes the gradients; each merged start stands
// right after its last gradient, its wait right before the sums over lanes, so that the first bucket travels
// while the rest of backward runs. Gathers of new weights are merged likewise, in the tail. Layouts are set
// anew by the pipeline.
Graph bucket(Graph graph, const PassContext& context);

}  // namespace lockstep::compiler
