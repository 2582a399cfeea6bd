// Turns gradients of tables into only the rows that a step uses, if these are few.
#pragma once

#include "compiler/pass/pass.h"

namespace lockstep::compiler {

// sum_lanes(embedding_grad(rows, ids)) becomes spread_rows(lane_rows(ids, rows)) if all of this holds:
//   - only updates and norms read it;
//   - the device updates tables by rows;
//   - the table has at least kRowsPerTaken rows for each row that the micro-batches of a step take;
//   - the mesh has no split model dim.
// Then only rows and ids travel, and nothing as large as the table is written except the result of the
// update. Rows of one id are added in the order of micro-batches.
Graph gradients_by_rows(Graph graph, const PassContext& context);

}  // namespace lockstep::compiler
