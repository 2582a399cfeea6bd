// Saving: the policy for failed saves: how often they are retried, and what happens if none succeeds.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "checkpoint/storage/storage.h"
#include "launcher/config/run_config.h"

namespace lockstep::launcher {

// Seconds before retry number `retry` (from 1): 1, 2, 4, ... at most 30.
double save_delay(int64_t retry);

class Saving {
 public:
  // `speaks`: this rank logs for all ranks. `sleep` waits the given seconds.
  Saving(const CheckpointConfig& policy, bool speaks, std::function<void(double)> sleep);
  Saving(const CheckpointConfig& policy, bool speaks);

  // Runs `save`, which is collective and throws NotSaved on all ranks together, until it succeeds or
  // checkpoint.retries are used up. True when saved. After failure: false with a warning if
  // checkpoint.on_failure is continue and `must` is not set; else NotSaved with the way out.
  bool operator()(int64_t step, bool must, const std::function<void()>& save);
  // The same for a caller that waits itself, after failure number `failure` (from 1) of a save. Returns the
  // seconds before a retry; nullopt: the run continues without the save. Throws NotSaved.
  std::optional<double> after_failure(bool must, int64_t failure, const checkpoint::NotSaved& error) const;
  void mended(int64_t step, int64_t retry) const;  // logs that this retry succeeded

 private:
  const CheckpointConfig policy_;
  bool speaks_;
  std::function<void(double)> sleep_;
};

}  // namespace lockstep::launcher
