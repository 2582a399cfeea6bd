// ReplayedRun: a train() under trainrun replay computes the requested step instead of the run.
#pragma once

#include <string>

#include "launcher/api/session.h"
#include "launcher/loop/replay.h"

namespace lockstep {

// Whether trainrun replay started this process, which then must not write anything.
bool replaying();

// If `run` is the replayed folder: computes the step, answers, and ends the process. Any other folder was
// trained before: loads its newest checkpoint and returns the state's hash. Collective. UserError when that
// folder has no checkpoint.
std::string replay_instead(Session& session, const launcher::RunConfig& config, launcher::Workload& work,
                           const launcher::RunHooks& hooks, const std::string& run);

}  // namespace lockstep
