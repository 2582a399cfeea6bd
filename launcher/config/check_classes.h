// Checks the class names in data.classes.
#pragma once

#include <string>
#include <vector>

#include "launcher/config/run_config.h"

namespace lockstep::launcher {

// Adds errors: a duplicate name, or a number of names other than model.classes.
void check_classes(const RunConfig& config, std::vector<std::string>& errors);

}  // namespace lockstep::launcher
