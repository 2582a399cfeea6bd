// The system compiler as a function: sources in, a shared object out.
#pragma once

#include <string>
#include <vector>

namespace lockstep::cpu {

struct Finished {
  int status = 0;      // exit status; 127 when the program could not be started; 128 + signal when it was killed
  std::string output;  // stdout and stderr together
};
// Runs programs side by side, at most `at_once` of them; each is killed after `deadline` seconds. One result per command.
std::vector<Finished> run_programs(const std::vector<std::vector<std::string>>& commands, int at_once, int deadline);

// First line of `compiler --version`, once per process. UserError when there is no such program.
std::string compiler_version(const std::string& compiler);

// Machine code of a shared object made from these translation units. UserError with the compiler's first lines when it fails.
std::string compile_units(const std::string& compiler, const std::string& flags, const std::vector<std::string>& units, int at_once);

}  // namespace lockstep::cpu
