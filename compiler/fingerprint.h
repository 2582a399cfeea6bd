// What all ranks must have in common of a step, as parts of a fingerprint: its plan before kernels are built,
// its artifact before it runs.
#pragma once

#include <string>
#include <vector>

#include "compiler/runtime/step.h"
#include "core/mesh/fingerprint.h"
#include "core/nn/state.h"

namespace lockstep::compiler {

// Batch and lanes, options that decide the program (no thread count, no folder), seed and layout of every
// tensor of the state, the collectives in the order in which they are started, and every line of the typed
// program. A pure function of the plan and the state's words: nothing is allocated, and no peer is asked.
std::vector<FingerprintPart> plan_parts(const StepPlan& plan, const State& state);
// One part of them: per collective its verb, attributes and user's line, every tensor in it with type and
// layout, and its bytes in all.
FingerprintPart collectives_part(const Graph& whole);
// Versions of the libraries that decide bits, the kernels' machine code, and the numerics certificate of a
// step that is ready to run.
std::vector<FingerprintPart> artifact_parts(const Step& step);

// "before the training step is compiled", where the step writes state; else "before the evaluation step is
// compiled".
std::string compile_place(const StepPlan& plan);

}  // namespace lockstep::compiler
