// The command and the environment that start the ranks of one attempt.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/mesh/deadline.h"
#include "launcher/supervise/options.h"

namespace lockstep {

struct LaunchCommand {
  std::vector<std::string> argv;                               // argv[0] is a path
  std::vector<std::pair<std::string, std::string>> variables;  // set
  Deadlines deadlines;                                         // of the ranks and of who watches them; among the variables too
  std::vector<std::string> without;                            // unset: prefixes of inherited names that would speak of another launch
};

// One rank is started as it is, several under mpirun. `columns` is the width of the terminal, 0 for none.
// UserError when mpirun is not installed.
LaunchCommand launch_command(const LaunchOptions& options, int64_t nproc, const std::string& run_dir, const std::string& log_dir,
                             int64_t restart, int columns);

// As a shell would take it: VAR=value ... program 'argument with space'.
std::string text(const LaunchCommand& command);

}  // namespace lockstep
