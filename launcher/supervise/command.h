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
  LaunchHosts hosts;  // several: argv is an mpirun, which starts all ranks
  bool heeds_stop =
      false;  // the program is Lockstep's worker: stop signals that come before it listens wait for it
};

// What every rank is started with. `columns` is the width of the terminal, 0 for none.
LaunchCommand launch_command(const LaunchOptions& options, int64_t nproc, const std::string& run_dir,
                             const std::string& log_dir, int64_t restart, int columns);

// Makes of a rank's command the mpirun that starts it on all hosts. `log_dir` is to hold the list of hosts,
// whose text is host_file_text; it must be seen by all hosts.
void start_by_mpirun(LaunchCommand& command, const LaunchOptions& options, const std::string& log_dir);
std::string host_file(const std::string& log_dir);
std::string host_file_text(const LaunchHosts& hosts);

// What tells a rank apart from the others: RANK and its companions, and the same in Open MPI's words.
std::vector<std::pair<std::string, std::string>> place_variables(const std::string& rank, int64_t nproc);

// The file of a program that PATH leads to; "" for none.
std::string found_in_path(const std::string& program);

// A word as a shell takes it: in quotes where it has other characters than names have.
std::string quoted(const std::string& word);

// As a shell takes it, a variable to a line, then program 'argument with space'; each flag of an mpirun has a
// line, too. R stands for the rank where there are several.
std::string text(const LaunchCommand& command);

}  // namespace lockstep::launcher
