// Partition over the data dims: each rank runs its own micro-batches, and every sum over micro-batches becomes explicit communication.
#pragma once

#include "compiler/pass.h"

namespace lockstep {

// sum_lanes(float x) -> lane_exchange_start, wait, lane_sum: each rank gets its rows of dim 0 summed over all lanes by the tree.
// sum_lanes(int c)   -> lane_count, all_reduce_start, wait.
// global_norm        -> norm_limbs (integers, exact in any order), all_reduce_start, wait, norm_of_limbs.
// update             -> on this rank's rows (local_rows of replicated state); new weights: all_gather_start, wait.
// The nodes before the sums are the same on every mesh: they belong to one micro-batch. Input layouts are set; the pipeline sets and checks
// the others (place_values). UserError when the mesh has a dim of size > 1 that this partition does not know.
Graph partition_data(Graph graph, const PassContext& context);

}  // namespace lockstep
