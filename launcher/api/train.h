// train(): the loop of trainrun around a model and data of the user's own: compiled, resumed, reported,
// saved.
#pragma once

#include <string>

#include "launcher/api/session.h"
#include "launcher/api/train_options.h"

namespace lockstep {

// Trains `state` on the session's mesh, device and precision: `function` is traced on a micro-batch of the
// fields, [micro_batch, shape...] each (and, where micro_batch is not given, once on the whole batch),
// updates the state, and gives the loss. Step i (from 0) reads samples i * global_batch to (i + 1) *
// global_batch - 1. It is the loop of trainrun's own runs: goes on from the newest checkpoint of the run;
// saves at the end, and when a signal asks for a stop; tells loss, metrics, pace and what is left, the
// predicted time of a step beside the measured one, and at the end "step N: state HASH". Returns that hash.
// Collective. UserError from the compiler, for options that cannot be, for a run that does not fit in memory,
// and where on_nonfinite or on_spike stops: the last checkpoint is untouched then.
std::string train(Session& session, State& state, const SampleData& data,
                  const compiler::StepFunction& function, const TrainOptions& options = {});

}  // namespace lockstep
