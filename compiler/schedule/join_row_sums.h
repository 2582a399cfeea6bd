// Gradients of many embedding tables as one: their ids are sorted once, not table by table.
#pragma once

#include "compiler/pass.h"

namespace lockstep::compiler {

// Where kMostApart tables of one width and dtype or more have their gradients (embedding_grad) in a phase,
// and none is computed from another: one embedding_grad over the rows of all, table behind table, and of it
// each table's rows. An id outside its table counts nothing, as before. The rows of an id are added in the
// same order: the same bits. Returned as it was otherwise.
Graph with_joined_row_sums(const Graph& graph);
inline constexpr size_t kMostApart = 8;

// The pass: on a device that the host does not address, where each table costs the launches of a sort. On the
// CPU a sort is none: rows are added where they lie.
Graph join_row_sums(Graph graph, const PassContext& context);

}  // namespace lockstep::compiler
