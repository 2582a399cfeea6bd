// Moments on the host: updates that reach them are made bucket by bucket, each behind its copy to the device
// and before its copy back.
#pragma once

#include "compiler/program/program.h"

namespace lockstep::compiler {

// The same step where updates reach no region that lies on the host. Two buckets of staging memory take
// turns: one is updated while those of the one before go, and they go while the next come. The first two are
// on their way from the step's begin, beside forward and backward. Tensors are cut where a bucket ends, since
// an update is made element by element; what is updated by rows of some ids is not. `whole`: the typed
// program of the updates.
void stage_moments(StepProgram& program, const Graph& whole);

// Bytes of a bucket for so many bytes of moments.
int64_t offload_bucket(int64_t moments);

}  // namespace lockstep::compiler
