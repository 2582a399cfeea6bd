// The loop of retries around a save.
#include "launcher/loop/saving.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

#include "checkpoint/storage/storage.h"
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
  for (int64_t retry = 1;; ++retry) try {
      save();
      if (retry > 1 && speaks_)
        logs::info(str("the checkpoint of step ", step, " is saved now (retry ", retry - 1, ")"));
      return true;
    } catch (const checkpoint::NotSaved& error) {
      if (retry <= policy_.retries) {
        if (speaks_)
          logs::warn(str(error.what(), "; tried again in ", number_text(save_delay(retry)), " s (retry ",
                         retry, " of ", policy_.retries, ")"));
        sleep_(save_delay(retry));
        continue;
      }
      const std::string tried =
          policy_.retries
              ? str("; ", policy_.retries, policy_.retries == 1 ? " retry" : " retries", " did not help")
              : "";
      if (policy_.on_failure == "continue" && !must) {
        if (speaks_)
          logs::warn(str(error.what(), tried,
                         "; the run goes on WITHOUT this checkpoint (checkpoint.on_failure continue) and "
                         "saves again at the "
                         "next one: what it computes until then would be lost with it"));
        return false;
      }
      throw checkpoint::NotSaved(
          str(error.what(), tried,
              "; make room or mend the disk and start the same command again: it goes on from the "
              "last checkpoint",
              must ? "" : "; checkpoint.on_failure continue would go on without this one"));
    }
}

}  // namespace lockstep::launcher
