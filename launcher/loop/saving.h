// Saving by policy: how often a save that the disk did not take is tried again, and what follows when none
// went well.
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
  // `speaks`: this rank says what all ranks do. `sleep` waits so many seconds.
  Saving(const CheckpointConfig& policy, bool speaks, std::function<void(double)> sleep);
  Saving(const CheckpointConfig& policy, bool speaks);

  // Runs `save`, which is collective and throws NotSaved on all ranks alike, until it goes well or
  // checkpoint.retries are used up. True when it is saved. False, with a warning, where checkpoint.on_failure
  // is continue and `must` is not set; else NotSaved with the way out.
  bool operator()(int64_t step, bool must, const std::function<void()>& save);
  // The same for a caller that waits in its own way: what follows failure number `failure` (from 1) of a
  // save. Seconds after which it is to be tried again; nullopt: the run goes on without it. NotSaved.
  std::optional<double> after_failure(bool must, int64_t failure, const checkpoint::NotSaved& error) const;
  void mended(int64_t step, int64_t retry) const;  // says that this retry went well

 private:
  const CheckpointConfig policy_;
  bool speaks_;
  std::function<void(double)> sleep_;
};

}  // namespace lockstep::launcher
