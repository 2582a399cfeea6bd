// Chooses the micro-batch size of a program that gives none.
#pragma once

#include "launcher/api/session.h"
#include "launcher/api/train_options.h"

namespace lockstep {

// Returns the options with a micro_batch: the given one; for 0 that of the run's newest checkpoint with the
// same global_batch, so that a resumed run keeps its bits; else compiler::default_micro_batch. Collective.
TrainOptions with_micro_batch(const Session& session, const State& state, const SampleData& data,
                              const compiler::StepFunction& function, TrainOptions options);

// The stored values of a program, as written by FunctionWorkload::values.
inline constexpr const char* kGlobalBatch = "global_batch";
inline constexpr const char* kMicroBatch = "micro_batch";

}  // namespace lockstep
