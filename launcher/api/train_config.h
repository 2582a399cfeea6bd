// The config that a program's options stand for: what of it belongs to no model and no data.
#pragma once

#include <string>

#include "launcher/api/session.h"
#include "launcher/api/train_options.h"
#include "launcher/config/run_config.h"

namespace lockstep {

// Before anything follows from them: all options, and the folder of the run. Collective; UserError on every
// rank that names the first one that differs, and both values.
void compare_options(const Session& session, const TrainOptions& options);

// UserError for options that a config would be refused for, in the words of TrainOptions.
launcher::RunConfig config_of(const TrainOptions& options, const Session& session, const State& state);

}  // namespace lockstep
