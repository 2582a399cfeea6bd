// The memory for a copy of the state during a background save.
#pragma once

#include <memory>

#include "checkpoint/save_in_flight.h"
#include "launcher/loop/workload.h"
#include "launcher/supervise/worker/contract.h"

namespace lockstep::launcher {

// Chooses host memory, or device memory if that has room. The workload outlives it.
std::shared_ptr<checkpoint::SnapshotRoom> room_for_snapshots(Workload& work, const WorkerPlace& at);

}  // namespace lockstep::launcher
