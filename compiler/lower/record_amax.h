// Delayed scales of float8: records the maxima of each step in the histories from which scales follow.
#pragma once

#include "compiler/pass/pass.h"

namespace lockstep::compiler {

// For a step that updates state and has products in float8 with delayed scales (delayed_linear_float8), each
// history gets an output. It has a new entry at the front of each row, and the oldest entry is dropped. The
// new entries are the largest magnitudes of the layer's input, weight and output gradient, over all
// micro-batches and all products of the layer. A maximum that is not finite is recorded as 0, which means
// none. The row of gradients is unchanged if the step computes none.
// Each micro-batch writes its maxima into its own column of a matrix of zeros, and sum_lanes adds these
// matrices. Sums of one number and zeros are exact in any order, so they are equal on all ranks. Other graphs
// are unchanged. InternalError if the step's micro-batches are not numbered (context.micro_batches, the
// batch's first dim).
Graph record_amax(Graph graph, const PassContext& context);

}  // namespace lockstep::compiler
