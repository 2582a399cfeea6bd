// The config equivalent of a program's options, without model and data.
#pragma once

#include <string>

#include "launcher/api/session.h"
#include "launcher/api/train_options.h"
#include "launcher/config/run_config.h"

namespace lockstep {

// Compares all options and the run's folder between ranks before they are used. Collective; UserError on
// every rank naming the first difference and both values.
void compare_options(const Session& session, const TrainOptions& options);

// UserError for options that are invalid in a config, with the names of TrainOptions.
launcher::RunConfig config_of(const TrainOptions& options, const Session& session, const State& state);

}  // namespace lockstep
