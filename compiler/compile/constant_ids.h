// Checks ids that are constants of a step when the step is compiled, since no batch changes them.
#pragma once

#include <vector>

#include "core/ir/graph.h"
#include "core/ops/id_read.h"

namespace lockstep::compiler {

// UserError naming the user's line, the id, its element and the range, if the traced graph reads by constants
// and one of them is out of range. Constants of more than 2^20 elements are not checked.
void check_constant_ids(const Graph& traced, const std::vector<IdRead>& reads);

}  // namespace lockstep::compiler
