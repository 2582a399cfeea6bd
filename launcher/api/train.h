// train(): trainrun's training loop for a user's own model and data: compiles, resumes, reports and saves.
#pragma once

#include <string>

#include "launcher/api/session.h"
#include "launcher/api/train_options.h"

namespace lockstep {

// Trains `state` on the session's mesh, device and precision: `function` is traced on a micro-batch of the
// fields, [micro_batch, shape...] each (and, where micro_batch is not given, once on the whole batch),
// updates the state, and gives the loss. Step i (from 0) reads samples i * global_batch to (i + 1) *
// global_batch - 1. It is the loop of trainrun's own runs: it continues from the run's newest checkpoint, and
// saves at the end and when a signal requests a stop. It reports loss, metrics, speed and remaining time, the
// predicted next to the measured time of a step, and at the end "step N: state HASH". Returns that hash.
// Collective. UserError from the compiler, for invalid options, for a run that does not fit in memory, and
// when on_nonfinite or on_spike stops the run; the last checkpoint is then untouched.
std::string train(Session& session, State& state, const SampleData& data,
                  const compiler::StepFunction& function, const TrainOptions& options = {});

}  // namespace lockstep
