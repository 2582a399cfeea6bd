// Partition over the model dims: tensor parallelism with sequence parallelism, from the placements of the
// state on `tp`.
#pragma once

#include "compiler/pass.h"

namespace lockstep::compiler {

// The joint graph on global shapes, composites whole, becomes the graph of one rank of the mesh dim `tp`,
// with its collectives.
//   - Each node runs on the shards that move the fewest bytes; weights stay where they lie. A sum that is
//     split leaves terms (Partial). They flow on where ops are linear, and else become a shard of the tokens
//     (sequence parallelism: dim 1 of [sequences, tokens, ...]) or whole.
//   - Gradients end in the placement of their parameter, losses and metrics whole. Counts are taken of whole
//     targets. In updates, behind the gradients' sums, products are done by every rank on whole values, which
//     are gathered where what they are computed from begins.
//   - Collectives are model_gather_start and model_exchange_start, each with its model_wait. Sums over ranks
//     are plain `sum` nodes in rank order, in f32 for halves. The rank's coordinate is the scalar input
//     "mesh.tp": the program is the same on every rank.
//   - global_norm gets `model_dim` and `once`: the inputs that are equal on all ranks of the dim, and count
//     on the first alone.
//
// Placements are checked before shapes become local (check_model_placements); for later passes values are
// whole on `tp`, and state has the shape of the rank's part. Without a `tp` larger than 1 the graph is
// returned as it is. UserError with all reasons and the nearest tp that works: heads, tokens or sharded dims
// that do not divide, rows of placements that would need a weight to be gathered (naming FQN and row); and
// for sizes > 1 of cp and pp.
Graph partition_model(Graph graph, const PassContext& context);

// The graph on global shapes with `redistribute` nodes, layouts of all values set on `tp`: the first half of
// partition_model.
Graph place_model(const Graph& graph, const PassContext& context, int mesh_dim);
// Derives the placement of each value on `mesh_dim` from the inputs, by the ways of the ops, and compares it
// with the layouts. UserError
// "[op] file:line (layer): what it got" for a value that is read in a placement that the op has no way for,
// and for outputs elsewhere than their state, or not whole.
void check_model_placements(const Graph& graph, const PassContext& context, int mesh_dim);
// The second half: local shapes, collectives for `redistribute`.
Graph localize_model(const Graph& graph, const PassContext& context, int mesh_dim);
// What both need first: counts of losses apart from their logits, dropout as its mask, row-parallel biases
// added after the sum.
Graph prepare_model(const Graph& graph, const PassContext& context, int mesh_dim);

}  // namespace lockstep::compiler
