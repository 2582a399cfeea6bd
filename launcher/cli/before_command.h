// Prepares a command: checks the variables that it reads, and lets signals undo its unfinished files.
#pragma once

#include <string>

namespace lockstep::launcher::cli {

// `command`: "run", "ckpt", ... UserError for a variable with an invalid value.
void before_command(const std::string& command);

}  // namespace lockstep::launcher::cli
