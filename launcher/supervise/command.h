// The command and the environment that start the ranks of one attempt.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/mesh/deadline.h"
#include "launcher/supervise/options.h"

namespace lockstep::launcher {

struct LaunchCommand {
  std::vector<std::string> argv;                               // argv[0] is a path
  std::vector<std::pair<std::string, std::string>> variables;  // set
  Deadlines deadlines;               // of the ranks and of who watches them; among the variables too
  std::vector<std::string> without;  // unset: prefixes of inherited names that would speak of another launch
  int64_t nproc = 1;
  bool heeds_stop =
      false;  // the program is Lockstep's worker: stop signals that come before it listens wait for it
};

// What every rank is started with. `columns` is the width of the terminal, 0 for none.
LaunchCommand launch_command(const LaunchOptions& options, int64_t nproc, const std::string& run_dir,
                             const std::string& log_dir, int64_t restart, int columns);

// What tells a rank apart from the others: RANK and its companions, and the same in Open MPI's words.
std::vector<std::pair<std::string, std::string>> place_variables(const std::string& rank, int64_t nproc);

// A word as a shell takes it: in quotes where it has other characters than names have.
std::string quoted(const std::string& word);

// As a shell would take it: VAR=value ... program 'argument with space'. R stands for the rank where there
// are several.
std::string text(const LaunchCommand& command);

}  // namespace lockstep::launcher
