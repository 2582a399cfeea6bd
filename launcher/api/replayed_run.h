// A train() that trainrun replay started: the step that it asks for, in place of the run.
#pragma once

#include <string>

#include "launcher/api/session.h"
#include "launcher/loop/replay.h"

namespace lockstep {

// Whether trainrun replay started this process: nothing is to be written then.
bool replaying();

// Where `run` is the folder that is replayed: computes the step, answers, and ends the process. Another one
// came before it: the state is that of its newest checkpoint, whose hash is returned. Collective. UserError
// where that folder holds none.
std::string replay_instead(Session& session, const launcher::RunConfig& config, launcher::Workload& work,
                           const launcher::RunHooks& hooks, const std::string& run);

}  // namespace lockstep
