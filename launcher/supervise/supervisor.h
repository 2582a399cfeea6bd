// trainrun's heart: attempts, restarts, and the exit code.
#pragma once

#include "launcher/supervise/options.h"
#include "launcher/supervise/run_folder.h"

namespace lockstep {

// Runs the group to its end, restarting it after a PeerError or a death by signal up to options.max_restarts times with a growing delay.
// Prints what it does and, at the end of a failed run, the root cause. Returns the exit code (core/base/error.h; 128 + signal when a second
// signal killed the run). UserError when the program cannot be started. `folder` is held by the caller.
int supervise(const LaunchOptions& options, const RunFolder& folder);

// Ranks of the next attempt: those that are left, but at least min_nproc; without min_nproc the same number.
int64_t next_nproc(const LaunchOptions& options, int64_t nproc, int64_t dead);

// Seconds before restart number `restart` (from 1).
double restart_delay(const LaunchOptions& options, int64_t restart);

}  // namespace lockstep
