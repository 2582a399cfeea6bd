// What State::freeze and State::lora leave to others: where adapters lie.
#pragma once

#include <vector>

#include "core/nn/state.h"

namespace lockstep {

// Where adapters lie on tp so that each rank has the part that belongs to its part of the weight. Of a state
// whose weights are placed.
std::vector<PlacementRule> adapter_placements(const State& state);

}  // namespace lockstep
