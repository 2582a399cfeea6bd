// The facts of a step that all ranks must share, as parts of a fingerprint: its plan before kernels are
// built, its artifact before it runs.
#pragma once

#include <string>
#include <vector>

#include "compiler/runtime/step.h"
#include "core/mesh/fingerprint.h"
#include "core/nn/state.h"

namespace lockstep::compiler {

// The parts are:
//   - batch and lanes; options that decide the program (no thread count, no folder);
//   - seed and layout of every tensor of the state;
//   - the collectives in the order of their starts; every line of the typed program.
// A pure function of the plan and the state's description: it allocates nothing and contacts no peer.
std::vector<FingerprintPart> plan_parts(const StepPlan& plan, const State& state);
// One of these parts: per collective its verb, attributes and user's line, each of its tensors with type and
// layout, and its total bytes.
FingerprintPart collectives_part(const Graph& whole);
// Of a step that is ready to run: versions of the libraries that decide bits, the kernels' machine code, and
// the numerics certificate.
std::vector<FingerprintPart> artifact_parts(const Step& step);

// "before the training step is compiled" if the step writes state, else "before the evaluation step is
// compiled".
std::string compile_place(const StepPlan& plan);

}  // namespace lockstep::compiler
