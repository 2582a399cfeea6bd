// The split of a state along the mesh dim tp: refuses a mesh that splits nothing, and names the parameters
// that stay whole.
#pragma once

#include <string>

#include "core/nn/state.h"

namespace lockstep::compiler {

// UserError if `mesh` has several ranks on tp and no parameter of the state is split on it: each rank would
// then compute the whole step.
void need_split_on_tp(const State& state, const Mesh& mesh);

// "on tp, 7 of 28 parameters stay whole: token.weight, blocks.*.norm1.weight, ..."; "" if tp has one rank, or
// if all parameters are split.
std::string whole_on_tp(const State& state, const Mesh& mesh);

}  // namespace lockstep::compiler
