// The restart rule: how many restarts, how long each waits, and what counts as progress.
#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include "launcher/supervise/launch/options.h"

namespace lockstep::launcher {

// At most options.max_restarts, in total or within any options.restart_window.
class RestartBudget {
 public:
  explicit RestartBudget(const LaunchOptions& options)
      : most_(options.max_restarts), window_(options.restart_window) {}
  // Uses one restart if one is left. `now` is in seconds of a steady clock.
  bool take(double now_s);
  int64_t used(double now_s);
  // "restart 2 of 3", "restart 2 of 3 within 1 h".
  std::string words(double now_s);

 private:
  int64_t most_;
  double window_;
  std::deque<double> taken_;
};

// "90 s", "15 min", "1.5 h".
std::string duration_text(double seconds);

// Seconds before a restart that is the `fruitless`-th in a row (from 0) without progress.
double restart_delay(const LaunchOptions& options, int64_t fruitless);

// Progress of a run: the furthest step that a rank began, and the newest checkpoint.
struct Progress {
  int64_t step = -1, checkpoint = -1;
  // Records the end of an attempt; true when it got further than all earlier ones.
  bool advance(int64_t furthest_step, int64_t newest_checkpoint);
};
// The highest N of RUN_DIR/ckpt/step-N, -1 for none.
int64_t newest_checkpoint(const std::string& run_dir);

}  // namespace lockstep::launcher
