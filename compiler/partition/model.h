// Partition over the model dims: tensor parallelism with sequence parallelism, from the placements of the
// state on `tp`.
#pragma once

#include "compiler/pass/pass.h"

namespace lockstep::compiler {

// The joint graph on global shapes, composites whole, becomes the graph of one rank of the mesh dim `tp`,
// with its collectives.
// - Each node runs on the shards that move the fewest bytes; weights stay in place. A split sum leaves terms
//   (Partial). Linear ops pass terms on; otherwise they become a shard of the tokens (sequence parallelism:
//   dim 1 of [sequences, tokens, ...]) or a whole value.
// - Gradients end in the placement of their parameter; losses and metrics are whole. Counts are taken of
//   whole targets. In updates, after the gradient sums, every rank computes products on whole values. These
//   are gathered where their computation begins.
//   - Collectives are model_gather_start and model_exchange_start, each with its model_wait. Sums over ranks
//     are plain `sum` nodes in rank order, in f32 for halves. The rank's coordinate is the scalar input
//     "mesh.tp": the program is the same on every rank.
// - global_norm gets `model_dim` and `once`: the inputs that are equal on all ranks of the dim, and are
//   counted only on the first.
//
// Placements are checked before shapes become local (check_model_placements). For later passes, values are
// whole on `tp`, and state has the shape of the rank's part. Without a `tp` larger than 1 the graph is
// returned unchanged.
// UserError with all reasons and the nearest tp that works: heads, tokens or sharded dims that do not divide;
// rows of placements that would need a weight to be gathered (naming FQN and row); sizes > 1 of cp and pp.
Graph partition_model(Graph graph, const PassContext& context);

// The first half of partition_model: the graph on global shapes with `redistribute` nodes, and layouts of all
// values set on `tp`.
Graph place_model(const Graph& graph, const PassContext& context, int mesh_dim);
// Derives the placement of each value on `mesh_dim` from the inputs, by the ways of the ops (shard_ways.h),
// and compares it with the layouts. UserError "[op] file:line (layer): what it got" if an op has no way for
// the placement of its input, and for outputs that are not placed like their state, or are not whole.
void check_model_placements(const Graph& graph, const PassContext& context, int mesh_dim);
// The second half: local shapes, and collectives for `redistribute`.
Graph localize_model(const Graph& graph, const PassContext& context, int mesh_dim);
// Preparation for both: counts of losses separate from their logits, dropout as its mask, row-parallel biases
// added after the sum.
Graph prepare_model(const Graph& graph, const PassContext& context, int mesh_dim);

}  // namespace lockstep::compiler
