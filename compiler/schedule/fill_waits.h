// Order of a phase around the collectives of its model dims: what is independent of one runs while it
// travels.
#pragma once

#include "compiler/pass.h"

namespace lockstep::compiler {

// The same nodes in another order; no value changes. A start stands right behind what makes its input. A wait
// stands where its collective has arrived, by the clocks of CompileOptions::travel. While one travels, other
// nodes that are ready run, in the order in which they stand, but a few collectives ahead at most: what is
// computed early is kept for long. Products that no collective depends on, those of gradients of weights, are
// held back to fill waits, as many as take the time of the next few collectives. What is computed from
// weights and constants alone stands before its first reader, so that weights are not needed early. A phase
// without such collectives stays as it is.
Graph fill_waits(Graph graph, const PassContext& context);

}  // namespace lockstep::compiler
