// The worker: everything between "the ranks are started" and the exit code, for a run described by a config.
#pragma once

#include "launcher/config/config.h"
#include "launcher/supervise/contract.h"

namespace lockstep {

// Trains on the place that `at` names; runs/NAME is at.run_dir. Returns kExitOk, or kExitStopped after a stop on request (stop_requested(),
// agreed between the ranks, state saved). Throws UserError, PeerError, InternalError; worker_main turns them into records and exit codes.
int run_worker(const RunConfig& config, const WorkerPlace& at);
// The same with the config of a file, which each rank reads for itself: what one of them cannot read or refuses ends all.
int run_worker(const std::string& config_file, const WorkerPlace& at);

}  // namespace lockstep
