// The worker: everything between "the ranks are started" and the exit code, for a run described by a config.
#pragma once

#include <memory>

#include "distributed/world.h"
#include "launcher/config/config.h"
#include "launcher/loop/training_loop.h"
#include "launcher/supervise/contract.h"

namespace lockstep::launcher {

// Those of a worker that is a process of its own: worker_side.h.
RunHooks process_hooks(const RunConfig& config);

// Trains on the place that `at` names, as a rank of `world`; runs/NAME is at.run_dir. Returns kExitOk, or
// kExitStopped after a stop on request (agreed between the ranks, state saved). Collective over `world`.
// Throws UserError, PeerError, InternalError; worker_main turns them into records and exit codes.
int run_rank(const RunConfig& config, const WorkerPlace& at, std::shared_ptr<distributed::World> world,
             const RunHooks& hooks);
// The same for a process of its own, in the world that it was launched into.
int run_worker(const RunConfig& config, const WorkerPlace& at);
// The same with the config of a file, which each rank reads for itself: what one of them cannot read or
// refuses ends all. A plugin must be among the overrides where the file is stored (launcher/config/stored.h).
int run_worker(const std::string& config_file, const std::vector<Override>& overrides, const WorkerPlace& at);

}  // namespace lockstep::launcher
