// Where a run keeps its checkpoints: in its folder, or where checkpoint.dir says.
#pragma once

#include <string>

#include "launcher/config/run_config.h"

namespace lockstep::launcher {

// The folder of `ckpt` and `best`: the run's own, or DIR/NAME of checkpoint.dir.
std::string kept_in(const RunConfig& config, const std::string& run_dir);

// For those who name the run: writes its file ckpt.at, which says where `checkpoints` are; "": in the run's
// own folder, and there is no such file. UserError where it cannot be written.
void point_to(const std::string& run_dir, const std::string& checkpoints);

}  // namespace lockstep::launcher
