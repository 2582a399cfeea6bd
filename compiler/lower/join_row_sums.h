// Joins the gradients of many embedding tables, so that their ids are sorted once instead of once per table.
#pragma once

#include "compiler/pass/pass.h"

namespace lockstep::compiler {

// Applies if a phase has gradients (embedding_grad) of at least kMostApart tables of one width and dtype,
// none computed from another. They become one embedding_grad over the rows of all tables, one table after
// another, and slices of each table's rows. An id outside its table adds nothing, as before. The rows of an
// id are added in the same order, so the bits are the same. Otherwise the graph is returned unchanged.
Graph with_joined_row_sums(const Graph& graph);
inline constexpr size_t kMostApart = 8;

// The pass: only on a device whose memory the host cannot address, where each table costs the launches of a
// sort. On the CPU there is no sort: rows are added in place.
Graph join_row_sums(Graph graph, const PassContext& context);

}  // namespace lockstep::compiler
