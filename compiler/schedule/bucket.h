// Buckets and order: merges collectives of one kind into few, of about bucket_bytes each, in one global
// order, started early and waited for late.
#pragma once

#include "compiler/pass/pass.h"

namespace lockstep::compiler {

// Gradient exchanges are merged in the order in which backward computes the gradients. Each merged start
// comes right after its last gradient, and its wait right before the sums over lanes. So the first bucket
// travels while the rest of backward runs. Gathers of new weights are merged in the same way, in the tail.
// The pipeline sets layouts again afterwards.
Graph bucket(Graph graph, const PassContext& context);

}  // namespace lockstep::compiler
