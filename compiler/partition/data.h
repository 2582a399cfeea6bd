// Partition over the data dims: each rank runs its own micro-batches, and every sum over micro-batches
// becomes explicit communication.
#pragma once

#include "compiler/pass/pass.h"

namespace lockstep::compiler {

// The data dims are dp_shard and dp_replicate, in this order of splits. A value is whole, or its rows (dim 0)
// are split over dp_shard, or over both; each rank then has the rows that it updates.
// - lane_rows becomes lane_gather_start, wait, sum_rows: each rank gets the rows of all micro-batches and
//   adds the rows of each id. If the table is split, it adds only those of the ids that it owns;
//   - take of a sparse table by ids that depend on data becomes a fetch: its rows are brought before the body
//     runs;
//   - sum_lanes of a float becomes lane_exchange_start, wait, lane_sum: each rank gets its rows of dim 0,
//     summed over all lanes by the tree.
//   - sum_lanes of an integer becomes lane_count, all_reduce_start, wait.
//   - global_norm becomes norm_limbs (integers, exact in any order), all_reduce_start, wait, norm_of_limbs.
// - An update works on this rank's rows (local_rows of replicated state). New weights become
//   all_gather_start, wait, for each dim on which they are whole.
//   - Weights stored as split rows are gathered before their first reader, dp_replicate first. If they are
//     rounded, it is before the gather.
//
// The nodes before the sums are the same on every mesh: they belong to one micro-batch. This pass sets input
// layouts; the pipeline sets and checks the others (place_values). UserError if the mesh has a dim of size >
// 1 that this partition does not know, or for a placement that does not split rows.
Graph partition_data(Graph graph, const PassContext& context);

}  // namespace lockstep::compiler
