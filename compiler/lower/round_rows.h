// Takes rows of a table before rounding, if the step rounded the whole table to take a few.
#pragma once

#include "compiler/pass/pass.h"

namespace lockstep::compiler {

// embedding(convert(table), ids) becomes convert(embedding(table, ids)) if the table is state, nothing else
// reads the rounded copy, and the table has at least kRowsPerTaken rows for each row that a micro-batch
// takes. The values are the same, because rounding is elementwise. The table's gradient is summed in its own
// dtype and not rounded afterwards. A smaller table is unchanged: if it is split, its rounded rows are half
// the traffic.
inline constexpr int64_t kRowsPerTaken = 8;
Graph round_rows(Graph graph, const PassContext& context);

}  // namespace lockstep::compiler
