// Faults that the run itself makes where LOCKSTEP_FAULT asks for them: for tests of what watches over it.
#pragma once

#include "compiler/runtime/step_io.h"
#include "core/nn/state.h"
#include "launcher/supervise/worker_side.h"

namespace lockstep::launcher {

// In this rank's first weight: a low bit flipped (flip), the highest of its exponent (burst), or a million
// times the weight (spike). From its step on (wrong): flip_batch of all that the rank computes.
void inject_fault(const WorkerPlace& at, int64_t step, State& state, compiler::StepInput& fed);
// A bit of the first field of each micro-batch that is filled from now on flips: this rank's gradients are
// not what they should be.
void flip_batch(compiler::StepInput& fed);

}  // namespace lockstep::launcher
