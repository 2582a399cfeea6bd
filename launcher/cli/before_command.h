// What is done before a command begins: variables that it reads are checked, and signals undo what it makes.
#pragma once

#include <string>

namespace lockstep::launcher::cli {

// `command`: "run", "ckpt", ... UserError for a variable with a value that is none.
void before_command(const std::string& command);

}  // namespace lockstep::launcher::cli
