// A save beside steps that change the arrays, as a training loop makes it.
#pragma once

#include <functional>
#include <memory>

#include "checkpoint/save_in_flight.h"
#include "tests/support/state_arrays.h"

namespace lockstep {

// Whether all ranks are done with their part of the stage. Collective.
inline bool all_ready(const checkpoint::SaveInFlight& save, Group& world) {
  int64_t word = save.ready();
  if (world.size() > 1) all_reduce(world, {&word, &word, 1, DType::i64, ReduceOp::min}, "ready");
  return word != 0;
}

// Begins a save, then takes steps until it is there: before each of them `train` may change the arrays.
inline checkpoint::SavedInfo save_beside(const std::string& dir, const checkpoint::SaveInfo& info,
                                         const std::vector<Array>& state, const LiveMesh& live, int keep,
                                         checkpoint::Storage& storage, const std::function<void()>& train,
                                         std::shared_ptr<checkpoint::SnapshotRoom> room = nullptr) {
  if (!room) room = std::make_shared<checkpoint::SnapshotRoom>();
  checkpoint::SaveInFlight save(dir, info, readable(state), live, keep, storage, room);
  LS_CHECK(save.beside());
  do train();
  while (!all_ready(save, *live.world) || !save.advance());
  return save.saved();
}

}  // namespace lockstep
