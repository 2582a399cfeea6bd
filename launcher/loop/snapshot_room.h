// Where the state is copied for a save that is written beside the training.
#pragma once

#include <memory>

#include "checkpoint/save_in_flight.h"
#include "launcher/loop/workload.h"
#include "launcher/supervise/contract.h"

namespace lockstep::launcher {

// Where it lies: in the host's memory, or in the device's where that has room. The workload outlives it.
std::shared_ptr<checkpoint::SnapshotRoom> room_for_snapshots(Workload& work, const WorkerPlace& at);

}  // namespace lockstep::launcher
