// What the mesh dim tp splits of a state: refused where it is nothing, and what stays whole is named.
#pragma once

#include <string>

#include "core/nn/state.h"

namespace lockstep::compiler {

// UserError where `mesh` has several ranks on tp and no parameter of the state is split on it: each of them
// would compute the whole step.
void need_split_on_tp(const State& state, const Mesh& mesh);

// "on tp, 7 of 28 parameters stay whole: token.weight, blocks.*.norm1.weight, ..."; "" without several ranks
// on tp, and where all are split.
std::string whole_on_tp(const State& state, const Mesh& mesh);

}  // namespace lockstep::compiler
