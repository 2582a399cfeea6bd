// A user program as the target of trainrun, and the interpreter of a Python program.
#pragma once

#include <string>
#include <vector>

namespace lockstep::launcher::cli {

// A file that ends in .py, with or without a slash.
bool is_python_program(const std::string& path);

// INTERPRETER -u PATH. The interpreter is the one next to `self`, where pip installs trainrun; else that of
// VIRTUAL_ENV; else python3 of PATH. UserError when there is none.
std::vector<std::string> python_command(const std::string& path, const std::string& self);

// The command to run `program` (path and arguments), directly or with python_command; `first` comes before
// its arguments.
std::vector<std::string> program_command(const std::vector<std::string>& program,
                                         const std::vector<std::string>& first, const std::string& self);

}  // namespace lockstep::launcher::cli
