// Checks the keys that depend on train.precision.
#pragma once

#include <string>
#include <vector>

#include "launcher/config/run_config.h"

namespace lockstep::launcher {

// Adds conflicts between the precision, the device, the mesh and train.float8.
void check_precision(const RunConfig& config, std::vector<std::string>& errors);

}  // namespace lockstep::launcher
