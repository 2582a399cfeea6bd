// Saving: retries a failed save.
#include "launcher/loop/saves/saving.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

#include "core/base/log.h"

namespace lockstep::launcher {

double save_delay(int64_t retry) {
  return std::min(30.0, std::exp2(static_cast<double>(std::min<int64_t>(retry, 10) - 1)));
}

Saving::Saving(const CheckpointConfig& policy, bool speaks, std::function<void(double)> sleep)
    : policy_(policy), speaks_(speaks), sleep_(std::move(sleep)) {}
Saving::Saving(const CheckpointConfig& policy, bool speaks)
    : Saving(policy, speaks,
             [](double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }) {}

bool Saving::operator()(int64_t step, bool must, const std::function<void()>& save) {
  for (int64_t retry = 0;; ++retry) try {
      save();
      if (retry) mended(step, retry);
      return true;
    } catch (const checkpoint::NotSaved& error) {
      const auto delay = after_failure(must, retry + 1, error);
      if (!delay) return false;
      sleep_(*delay);
    }
}

void Saving::mended(int64_t step, int64_t retry) const {
  if (speaks_) logs::info(str("the checkpoint of step ", step, " is saved now (retry ", retry, ")"));
}

std::optional<double> Saving::after_failure(bool must, int64_t failure,
                                            const checkpoint::NotSaved& error) const {
  if (failure <= policy_.retries) {
    if (speaks_)
      logs::warn(str(error.what(), "; tried again in ", number_text(save_delay(failure)), " s (retry ",
                     failure, " of ", policy_.retries, ")"));
    return save_delay(failure);
  }
  const std::string tried =
      policy_.retries
          ? str("; ", policy_.retries, policy_.retries == 1 ? " retry" : " retries", " did not help")
          : "";
  if (policy_.on_failure == "continue" && !must) {
    if (speaks_)
      logs::warn(str(error.what(), tried,
                     "; the run goes on WITHOUT this checkpoint (checkpoint.on_failure continue) and saves "
                     "again at the next one: what it computes until then would be lost with it"));
    return {};
  }
  throw checkpoint::NotSaved(str(
      error.what(), tried,
      "; make room or mend the disk and start the same command again: it goes on from the last checkpoint",
      must ? "" : "; checkpoint.on_failure continue would go on without this one"));
}

}  // namespace lockstep::launcher
