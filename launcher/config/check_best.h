// The keys that go by the best validation: early stop and the checkpoint that is kept of it.
#pragma once

#include <string>
#include <vector>

#include "launcher/config/run_config.h"

namespace lockstep::launcher {

// Adds what is wrong between them, and with the validations that they need.
void check_best(const RunConfig& config, std::vector<std::string>& errors);

}  // namespace lockstep::launcher
