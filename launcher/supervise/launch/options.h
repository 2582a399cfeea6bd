// LaunchOptions: what a launch is asked to do. The command line fills it; the supervisor follows it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/supervise/launch/hosts.h"

namespace lockstep::launcher {

struct LaunchOptions {
  int64_t nproc = 1;          // ranks, of all hosts
  int64_t max_restarts = 0;   // restarts after a PeerError or a death by signal
  double restart_window = 0;  // seconds within which restarts count; 0: the whole run
  int64_t min_nproc = 0;      // a restart may leave out dead ranks down to this number; 0: always nproc ranks
  double grace = 30;          // seconds from a stop request until remaining processes are killed
  // Seconds before a restart. They double while restarts bring no progress, up to 30 s (or this, if longer).
  // Not set: none after progress (0.5 on several hosts, so that daemons free their ports), else 0.5 at first.
  std::optional<double> restart_delay{};
  double grow_after = 60;  // seconds that an attempt with missing ranks runs before these return at a step
                           // boundary; doubles when they fail again. 0: never
  // a host with a rank that takes this many times the others' median is left out; 0: none
  double slow_host = 0;
  double timeout = 0;   // seconds after which the run stops and saves; 0: none
  std::string log_dir;  // parent folder of the logs; "": the run's folder
  // how many of the newest log folders are kept; 0: all
  int64_t keep_attempts = 100;
  std::vector<std::pair<std::string, std::string>> variables;  // set by the user for each rank
  std::optional<std::vector<int64_t>> shown;  // ranks whose output is shown on the console; empty: all
  bool heeds_stop = false;  // the worker is Lockstep's own: it handles stop signals once it is ready
  // OMP_NUM_THREADS of each rank; 0: the user's OMP_NUM_THREADS, else cores / nproc, at least 1
  int64_t threads = 0;
  std::string deadlines;            // in the format of LOCKSTEP_DEADLINE; "": its value
  std::string verify_collectives;   // auto, on, off; "": the value of LOCKSTEP_VERIFY_COLLECTIVES
  int64_t profile = 0;              // steps that a user program traces; 0: the program decides
  std::string memory_dir;           // folder for checkpoints in memory; "": none
  std::vector<std::string> worker;  // program and arguments of a rank
  LaunchHosts hosts;                // where the ranks are
};

// Threads of each rank for `nproc` ranks on `cores` cores.
int64_t threads_per_rank(const LaunchOptions& options, int64_t nproc, int64_t cores);

}  // namespace lockstep::launcher
