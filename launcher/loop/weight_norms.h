// Computes the norms of a state's parameters.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/nn/state.h"

namespace lockstep::launcher {

// For each parameter in order, {FQN, square root of the sum of squares}. The sum is exact and rounded once,
// so it is the same on any mesh. Collective over the state's mesh.
std::vector<std::pair<std::string, float>> weight_norms(State& state);

}  // namespace lockstep::launcher
