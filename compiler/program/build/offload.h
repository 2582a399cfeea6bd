// Moments in host memory: their updates run bucket by bucket, each after its copy to the device and before
// its copy back.
#pragma once

#include "compiler/program/words/program.h"

namespace lockstep::compiler {

// Returns the step unchanged if updates access no region in host memory. Two buckets of staging memory
// alternate: while one is updated, the previous one is copied back and the next one is brought. The first two
// start with the step, and overlap with forward and backward.
// Tensors are cut at the end of a bucket, because an update is elementwise; tensors that are updated by rows
// of some ids are not cut. `whole`: the typed program of the updates.
void stage_moments(StepProgram& program, const Graph& whole);

// Bytes of a bucket for this many bytes of moments.
int64_t offload_bucket(int64_t moments);

}  // namespace lockstep::compiler
