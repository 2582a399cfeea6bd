// The system compiler as a function: sources in, a shared object out.
#pragma once

#include <string>
#include <vector>

#include "core/base/error.h"

namespace lockstep::compiler::cpu {

struct Finished {
  int status = 0;       // exit status; 127: could not be started; 128 + signal: killed
  std::string output;   // stdout and stderr together
  bool started = true;  // false: no such program, or no permission to run it
};
// Runs programs in parallel, at most `at_once`; each is killed after `deadline` seconds. One result per
// command. `scratch` is their TMPDIR; "": this process's.
std::vector<Finished> run_programs(const std::vector<std::vector<std::string>>& commands, int at_once,
                                   int deadline, const std::string& scratch = "");

// No compiler of that name exists on this machine.
class NoCompiler : public UserError {
 public:
  using UserError::UserError;
};
// First line of `compiler --version`, once per process. NoCompiler when there is no such program, another
// UserError when it fails.
std::string compiler_version(const std::string& compiler);

// Machine code of a shared object compiled from these translation units. UserError with the compiler's first
// lines when it fails.
std::string compile_units(const std::string& compiler, const std::string& flags,
                          const std::vector<std::string>& units, int at_once);

}  // namespace lockstep::compiler::cpu
