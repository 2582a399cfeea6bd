// Faults that the run injects into itself by LOCKSTEP_FAULT, to test its checks.
#pragma once

#include "compiler/runtime/step_io.h"
#include "core/nn/state.h"
#include "launcher/supervise/worker/side.h"

namespace lockstep::launcher {

// In this rank's first weight: a low bit flipped (flip), the highest of its exponent (burst), or a million
// times the weight (spike). From its step on (wrong): flip_batch for everything that the rank computes.
void inject_fault(const WorkerPlace& at, int64_t step, State& state, compiler::StepInput& fed);
// From now on flips a bit of the first field of each filled micro-batch, which makes this rank's gradients
// wrong.
void flip_batch(compiler::StepInput& fed);

}  // namespace lockstep::launcher
