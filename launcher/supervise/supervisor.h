// trainrun's heart: attempts, restarts, and the exit code.
#pragma once

#include "launcher/supervise/options.h"
#include "launcher/supervise/run_folder.h"

namespace lockstep::launcher {

// Runs the group to its end, restarting it after a PeerError, a rank that left early or a death by signal up
// to options.max_restarts times. Prints what it does and, at the end of a failed run, the root cause. Returns
// the exit code (core/base/error.h; kExitProgram; 128 + signal when a second signal killed the run).
// UserError when the program cannot be started. `folder` is held by the caller.
int supervise(const LaunchOptions& options, const RunFolder& folder);

// Ranks of the next attempt: those that are left, but at least min_nproc; without min_nproc the same number.
int64_t next_nproc(const LaunchOptions& options, int64_t nproc, int64_t dead);

// Seconds before a restart, the `fruitless`-th in a row (from 0) after an attempt that brought the run no
// further than it had been.
double restart_delay(const LaunchOptions& options, int64_t fruitless);

// How far a run has come: the furthest step that a rank began, and the newest checkpoint.
struct Progress {
  int64_t step = -1, checkpoint = -1;
  // Takes the end of an attempt in; true when it went further than all before it.
  bool advance(int64_t furthest_step, int64_t newest_checkpoint);
};
// The highest N of RUN_DIR/ckpt/step-N, -1 for none.
int64_t newest_checkpoint(const std::string& run_dir);

}  // namespace lockstep::launcher
