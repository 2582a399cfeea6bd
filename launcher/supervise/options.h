// What a launch is asked to do; the command line fills it, the supervisor obeys it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/supervise/launch_hosts.h"

namespace lockstep::launcher {

struct LaunchOptions {
  int64_t nproc = 1;          // ranks, of all hosts
  int64_t max_restarts = 0;   // restarts after a PeerError or a death by signal
  double restart_window = 0;  // seconds within which they are counted; 0: all of the run's
  int64_t min_nproc =
      0;              // a restart goes on without ranks that died, down to this number; 0: always nproc ranks
  double grace = 30;  // seconds from a stop request until what still runs is killed
  // Seconds before a restart, which double while restarts bring no progress, up to 30 s (or this, if longer).
  // Not set: after progress none (on several hosts 0.5, in which daemons leave their ports), else from 0.5
  // on.
  std::optional<double> restart_delay{};
  double grow_after = 60;  // seconds that an attempt without some of the ranks runs, before these are
                           // taken back at a step boundary; doubles when they fail again. 0: never
  double slow_host = 0;    // a host whose rank takes so many times the others' median is left out; 0: none
  double timeout = 0;      // seconds after which the run stops and saves; 0: none
  std::string log_dir;     // below which the logs lie; "": in the run's folder
  int64_t keep_attempts = 100;                                 // folders of logs, the newest; 0: all
  std::vector<std::pair<std::string, std::string>> variables;  // of each rank, by the user
  std::optional<std::vector<int64_t>> shown;  // ranks whose output is on the console; empty: all
  bool heeds_stop = false;  // the worker is Lockstep's own: it answers stop signals once it listens
  int64_t threads =
      0;  // OMP_NUM_THREADS of each rank; 0: the user's OMP_NUM_THREADS, else cores / nproc, at least 1
  std::string deadlines;            // as LOCKSTEP_DEADLINE has them; "": what LOCKSTEP_DEADLINE says
  std::string verify_collectives;   // auto, on, off; "": what LOCKSTEP_VERIFY_COLLECTIVES says
  int64_t profile = 0;              // steps that a program of the user's own traces; 0: as it says itself
  std::string memory_dir;           // where ranks keep checkpoints in memory; "": nowhere
  std::vector<std::string> worker;  // program and arguments of a rank
  LaunchHosts hosts;                // where the ranks are
};

// Threads of each rank for `nproc` ranks on `cores` cores.
int64_t threads_per_rank(const LaunchOptions& options, int64_t nproc, int64_t cores);

}  // namespace lockstep::launcher
