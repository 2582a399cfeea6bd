// RunSaves: begins saves, waits for them, and retries them.
#include "launcher/loop/saves/run_saves.h"

#include <utility>

#include "core/base/log.h"

namespace lockstep::launcher {

using namespace checkpoint;

RunSaves::RunSaves(const CheckpointConfig& policy, const LiveMesh& mesh, std::shared_ptr<SnapshotRoom> room,
                   Storage& storage)
    : mesh_(mesh),
      async_(policy.async),
      storage_(storage),
      saving_(policy, mesh.world->rank() == 0),
      room_(std::move(room)) {}

void RunSaves::save(const SaveOrder& order, const SaveInfo& info, const std::vector<const Array*>& arrays) {
  finish();
  const bool beside = async_ && !order.last;
  flight_ = std::make_unique<SaveInFlight>(order.folder, info, arrays, mesh_, static_cast<int>(order.keep),
                                           storage_, beside ? room_ : nullptr);
  order_ = order;
  retry_ = 0;
  if (beside && !flight_->beside() && !std::exchange(told_, true))
    logs::info(str("a save copies ", bytes_text(static_cast<double>(flight_->snapshot_bytes())),
                   " of the state and is written beside the training (checkpoint.async), but a rank has no "
                   "memory for that: the run waits for its saves"));
  if (!flight_->beside() || order.wait) finish();
}

void RunSaves::heard(int64_t votes) {
  if (flight_ && ready(votes) == mesh_.world->size()) advance();
}

void RunSaves::finish() {
  bool said = false;
  while (flight_) {
    if (!said && !flight_->wait(1)) {
      logs::info(str("waiting for the save of step ", flight_->step(), ", which is still being written"));
      said = true;
    }
    advance();
  }
}

void RunSaves::advance() try {
  if (!flight_->advance()) return;
  if (retry_) saving_.mended(flight_->step(), retry_);
  flight_ = nullptr;
  if (order_.then) order_.then();
} catch (const NotSaved& error) {
  auto failed = std::move(flight_);
  if (const auto delay = saving_.after_failure(order_.last, ++retry_, error)) {
    failed->again(*delay);
    flight_ = std::move(failed);
  }
} catch (...) {
  flight_ = nullptr;
  throw;
}

}  // namespace lockstep::launcher
