// Takes rows of a table before it rounds them, where the step rounded the table whole to take a few.
#pragma once

#include "compiler/pass.h"

namespace lockstep::compiler {

// embedding(convert(table), ids) becomes convert(embedding(table, ids)), for a table of the state of which
// nothing else reads the rounded copy and which has at least kRowsPerTaken rows for each that a micro-batch
// takes. The values are the same, since rounding is by element; the table's gradient is summed in its own
// dtype, and not rounded after. A smaller table stays: what travels of it, where it lies split, is half as
// much.
inline constexpr int64_t kRowsPerTaken = 8;
Graph round_rows(Graph graph, const PassContext& context);

}  // namespace lockstep::compiler
