// The system compiler as a function: sources in, a shared object out.
#pragma once

#include <string>
#include <vector>

#include "core/base/error.h"

namespace lockstep::compiler::cpu {

struct Finished {
  int status = 0;  // exit status; 127 when the program could not be started; 128 + signal when it was killed
  std::string output;   // stdout and stderr together
  bool started = true;  // else there is no such program, or it may not be run
};
// Runs programs side by side, at most `at_once` of them; each is killed after `deadline` seconds. One result
// per command. `scratch` is their TMPDIR; "": this process's.
std::vector<Finished> run_programs(const std::vector<std::vector<std::string>>& commands, int at_once,
                                   int deadline, const std::string& scratch = "");

// There is no compiler of that name here.
class NoCompiler : public UserError {
 public:
  using UserError::UserError;
};
// First line of `compiler --version`, once per process. NoCompiler when there is no such program, another
// UserError when it fails.
std::string compiler_version(const std::string& compiler);

// Machine code of a shared object made from these translation units. UserError with the compiler's first
// lines when it fails.
std::string compile_units(const std::string& compiler, const std::string& flags,
                          const std::vector<std::string>& units, int at_once);

}  // namespace lockstep::compiler::cpu
