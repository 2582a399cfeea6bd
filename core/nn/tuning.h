// The placement of adapters, which State::freeze and State::lora leave to the trainer.
#pragma once

#include <vector>

#include "core/nn/state.h"

namespace lockstep {

// Placement rules that put on each tp rank the part of an adapter that belongs to its part of the weight. The
// weights of the state must be placed.
std::vector<PlacementRule> adapter_placements(const State& state);

}  // namespace lockstep
