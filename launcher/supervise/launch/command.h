// The command and the environment that start the ranks of one attempt.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/mesh/deadline.h"
#include "launcher/supervise/launch/options.h"

namespace lockstep::launcher {

struct LaunchCommand {
  std::vector<std::string> argv;                               // argv[0] is a path
  std::vector<std::pair<std::string, std::string>> variables;  // set
  Deadlines deadlines;               // of the ranks and the watchers; also among the variables
  std::vector<std::string> without;  // unset: prefixes of inherited names that describe another launch
  int64_t nproc = 1;
  LaunchHosts hosts;  // several: argv is an mpirun, which starts all ranks
  // the program is Lockstep's worker: earlier stop signals are held until it handles them
  bool heeds_stop = false;
};

// The command common to all ranks. `columns` is the width of the terminal, 0 without one.
LaunchCommand launch_command(const LaunchOptions& options, int64_t nproc, const std::string& run_dir,
                             const std::string& log_dir, int64_t restart, int columns);

// Turns a rank's command into the mpirun that starts it on all hosts. `log_dir` must contain the host list
// (host_file_text) and be visible to all hosts.
void start_by_mpirun(LaunchCommand& command, const LaunchOptions& options, const std::string& log_dir);
std::string host_file(const std::string& log_dir);
std::string host_file_text(const LaunchHosts& hosts);
// What mpirun calls instead of ssh where each host has an agent: this trainrun, with the attempt's folder.
std::string agent_words(const std::string& log_dir);

// The variables specific to a rank: RANK and its companions, and Open MPI's equivalents.
std::vector<std::pair<std::string, std::string>> place_variables(const std::string& rank, int64_t nproc);

// The file of a program found in PATH; "" for none.
std::string found_in_path(const std::string& program);

// A word quoted for a shell, if it has other characters than names have.
std::string quoted(const std::string& word);

// Shell text: one variable per line, then the program and its quoted arguments; each mpirun flag has its own
// line. R stands for the rank when there are several.
std::string text(const LaunchCommand& command);

}  // namespace lockstep::launcher
