// Records the model of a config in a state: that of its family, with train.freeze and train.lora applied.
#pragma once

#include "core/models/family.h"
#include "core/nn/state.h"
#include "launcher/config/config.h"

namespace lockstep::launcher {

// UserError from the model, and for globs of train.freeze and train.lora that match nothing.
models::Model build_model(const RunConfig& config, State& state);

// The weights of the model: parameters without adapters.
std::vector<Array*> weights_of(State& state);

}  // namespace lockstep::launcher
