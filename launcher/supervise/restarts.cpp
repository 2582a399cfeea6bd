// Counts restarts and computes their delays.
#include "launcher/supervise/restarts.h"

#include <algorithm>

#include "core/base/error.h"
#include "launcher/supervise/folders/memory.h"

namespace lockstep::launcher {

int64_t RestartBudget::used(double now_s) {
  while (window_ > 0 && !taken_.empty() && now_s - taken_.front() > window_) taken_.pop_front();
  return static_cast<int64_t>(taken_.size());
}

bool RestartBudget::take(double now_s) {
  if (used(now_s) >= most_) return false;
  taken_.push_back(now_s);
  return true;
}

std::string RestartBudget::words(double now_s) {
  return str("restart ", used(now_s), " of ", most_,
             window_ > 0 ? str(" within ", duration_text(window_)) : "");
}

std::string duration_text(double seconds) {
  if (seconds >= 7200) return str(number_text(seconds / 3600), " h");
  if (seconds >= 300) return str(number_text(seconds / 60), " min");
  return str(number_text(seconds), " s");
}

double restart_delay(const LaunchOptions& options, int64_t fruitless) {
  if (!options.restart_delay && !options.hosts.several() && fruitless-- == 0) return 0;
  double delay = options.restart_delay.value_or(0.5);
  const double most = std::max(30.0, delay);
  for (int64_t i = 0; i < fruitless && delay < most; ++i) delay *= 2;
  return std::min(delay, most);
}

bool Progress::advance(int64_t furthest_step, int64_t newest_checkpoint) {
  const bool further = furthest_step > step || newest_checkpoint > checkpoint;
  step = std::max(step, furthest_step), checkpoint = std::max(checkpoint, newest_checkpoint);
  return further;
}

int64_t newest_checkpoint(const std::string& run_dir) { return newest_step_in(run_dir + "/ckpt"); }

}  // namespace lockstep::launcher
