// Checks keys that depend on the best validation: early stopping and the best checkpoint.
#pragma once

#include <string>
#include <vector>

#include "launcher/config/run_config.h"

namespace lockstep::launcher {

// Adds conflicts between them and with the validations that they need.
void check_best(const RunConfig& config, std::vector<std::string>& errors);

}  // namespace lockstep::launcher
