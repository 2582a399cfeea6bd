// A program in Python as the target of trainrun: which interpreter runs it.
#pragma once

#include <string>
#include <vector>

namespace lockstep::launcher::cli {

bool is_python_program(const std::string& path);  // a file that ends in .py, with or without a slash

// INTERPRETER -u PATH. The interpreter beside `self`, which is where pip puts trainrun; else that of
// VIRTUAL_ENV; else python3 of PATH. UserError where there is none.
std::vector<std::string> python_command(const std::string& path, const std::string& self);

}  // namespace lockstep::launcher::cli
