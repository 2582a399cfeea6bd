// Delayed scales of float8: what a step makes of the histories that they follow from.
#pragma once

#include "compiler/pass.h"

namespace lockstep::compiler {

// Of a step that updates state and has products in float8 with delayed scales (delayed_linear_float8), each
// history gets an output: an entry in front of each row, the largest magnitudes of the layer's input, weight
// and gradient of the output over all micro-batches and all products of the layer, and the oldest entry goes.
// One that is not finite enters as 0, which is none. The row of gradients stays as it is where the step takes
// none. Each micro-batch writes its maxima in a column of its own of a matrix of
// zeros, and sum_lanes adds these matrices: sums of one number and zeros are exact in any order, so they are
// the same on any ranks. Otherwise the graph stays as it is. InternalError: the step's
// micro-batches are not numbered (context.micro_batches, the batch's first dim).
Graph record_amax(Graph graph, const PassContext& context);

}  // namespace lockstep::compiler
