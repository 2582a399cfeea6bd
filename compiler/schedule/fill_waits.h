// Reorders a phase around the collectives of its model dims, so that independent nodes run while a collective
// travels.
#pragma once

#include "compiler/pass/pass.h"

namespace lockstep::compiler {

// The same nodes in another order; no value changes.
//   - A start comes right after the node that makes its input.
//   - A wait comes where its collective should have arrived, by the rates of CompileOptions::travel.
//   - Meanwhile other ready nodes run, in their old order. They run at most a few collectives ahead, because
//     early results must be kept for long.
//   - Products that no collective depends on, those of weight gradients, are held back to fill waits: as many
//     as take the time of the next few collectives.
//   - Nodes computed only from weights and constants come before their first reader, so that weights are not
//     needed early.
// A phase without such collectives stays unchanged.
Graph fill_waits(Graph graph, const PassContext& context);

}  // namespace lockstep::compiler
