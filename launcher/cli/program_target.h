// A program of the user's own as the target of trainrun, and which interpreter runs one in Python.
#pragma once

#include <string>
#include <vector>

namespace lockstep::launcher::cli {

// A file that ends in .py, with or without a slash.
bool is_python_program(const std::string& path);

// INTERPRETER -u PATH. The interpreter beside `self`, which is where pip puts trainrun; else that of
// VIRTUAL_ENV; else python3 of PATH. UserError where there is none.
std::vector<std::string> python_command(const std::string& path, const std::string& self);

// The command of either, PATH or python_command, with `first` before the arguments of `program` (its path and
// its arguments).
std::vector<std::string> program_command(const std::vector<std::string>& program,
                                         const std::vector<std::string>& first, const std::string& self);

}  // namespace lockstep::launcher::cli
