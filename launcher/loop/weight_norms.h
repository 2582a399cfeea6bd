// Norms of the parameters of a state.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/nn/state.h"

namespace lockstep::launcher {

// Of each parameter, in their order, {FQN, the square root of the sum of squares}: the sum is exact and
// rounded once, so it is the same on any mesh. Collective over the state's mesh.
std::vector<std::pair<std::string, float>> weight_norms(State& state);

}  // namespace lockstep::launcher
