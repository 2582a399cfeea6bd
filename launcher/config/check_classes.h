// The names of classes that data.classes lists.
#pragma once

#include <string>
#include <vector>

#include "launcher/config/run_config.h"

namespace lockstep::launcher {

// Adds what is wrong with them: a name twice, another number of them than model.classes.
void check_classes(const RunConfig& config, std::vector<std::string>& errors);

}  // namespace lockstep::launcher
