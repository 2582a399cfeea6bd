// Ids that are constants of a step: looked at when it is compiled, since no batch changes them.
#pragma once

#include <vector>

#include "core/ir/graph.h"
#include "core/ops/id_read.h"

namespace lockstep::compiler {

// UserError naming the user's line, the id, its element and the range where a read of the traced graph is by
// constants, and one of them lies outside. Constants of more than 2^20 elements are not looked at.
void check_constant_ids(const Graph& traced, const std::vector<IdRead>& reads);

}  // namespace lockstep::compiler
