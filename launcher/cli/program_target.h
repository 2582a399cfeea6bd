// A program of the user's own as the target of trainrun, and which interpreter runs one in Python.
#pragma once

#include <string>
#include <vector>

namespace lockstep::launcher::cli {

bool is_program(const std::string& path);         // an executable file, named with a slash, that is no .json
bool is_python_program(const std::string& path);  // a file that ends in .py, with or without a slash

// INTERPRETER -u PATH. The interpreter beside `self`, which is where pip puts trainrun; else that of
// VIRTUAL_ENV; else python3 of PATH. UserError where there is none.
std::vector<std::string> python_command(const std::string& path, const std::string& self);

// The command of either: PATH, or python_command.
std::vector<std::string> program_command(const std::string& path, const std::string& self);

}  // namespace lockstep::launcher::cli
