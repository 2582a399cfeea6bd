// The worker of a config's run: everything from the start of the ranks to the exit code.
#pragma once

#include <memory>

#include "distributed/world.h"
#include "launcher/config/config.h"
#include "launcher/loop/training_loop.h"
#include "launcher/supervise/worker/contract.h"

namespace lockstep::launcher {

// For a worker process they are in supervise/worker/side.h.
RunHooks process_hooks(const RunConfig& config);

// Trains at the place `at`, as a rank of `world`; runs/NAME is at.run_dir. Returns kExitOk, or kExitStopped
// after a stop on request (agreed between the ranks, state saved). Collective over `world`. Throws UserError,
// PeerError, InternalError; worker_main turns them into records and exit codes.
int run_rank(const RunConfig& config, const WorkerPlace& at, std::shared_ptr<distributed::World> world,
             const RunHooks& hooks);
// The same for a separate process, in the world in which it was launched.
int run_worker(const RunConfig& config, const WorkerPlace& at);
// The same with the config of a file, which each rank reads itself: an error of one rank ends all. For a
// stored config, a plugin must be named in the overrides (launcher/config/stored.h).
int run_worker(const std::string& config_file, const std::vector<Override>& overrides, const WorkerPlace& at);

}  // namespace lockstep::launcher
