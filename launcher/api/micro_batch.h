// The micro-batches of a program that gives no size for them.
#pragma once

#include "launcher/api/session.h"
#include "launcher/api/train_options.h"

namespace lockstep {

// The options with a micro_batch: as given; where it is 0, that of the run's newest checkpoint of the same
// global_batch, so that a run goes on with its bits; else compiler::default_micro_batch. Collective.
TrainOptions with_micro_batch(const Session& session, const State& state, const SampleData& data,
                              const compiler::StepFunction& function, TrainOptions options);

// What the state remembers of a program, as FunctionWorkload::values writes it.
inline constexpr const char* kGlobalBatch = "global_batch";
inline constexpr const char* kMicroBatch = "micro_batch";

}  // namespace lockstep
