// Gradients of tables as the rows that a step takes, where these are few.
#pragma once

#include "compiler/pass.h"

namespace lockstep::compiler {

// sum_lanes(embedding_grad(rows, ids)) becomes spread_rows(lane_rows(ids, rows)), where nothing but updates
// and norms reads it, the device updates tables by rows, and the table has at least kRowsPerTaken rows for
// each that the micro-batches of a step take: rows and ids travel, and nothing is as large as the table but
// what the update replaces. Rows of one id are added in the order of micro-batches. Where the mesh splits
// models, tables stay.
Graph gradients_by_rows(Graph graph, const PassContext& context);

}  // namespace lockstep::compiler
