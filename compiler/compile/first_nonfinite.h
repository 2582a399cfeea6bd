// The origin of a NaN or an infinity in a step: the first such value of its micro-batches, with op, layer and
// the user's line.
#pragma once

#include <string>

#include "compiler/runtime/step.h"
#include "core/nn/state.h"

namespace lockstep::compiler {

struct FirstNonFinite {
  std::string words;     // one sentence, the same on all ranks
  bool in_data = false;  // whether the batch itself contains it
};
// Checks the state, then runs the micro-batches of `input` again, op by op, from the current state; writes
// nothing. For a step whose update was skipped (StepResult::applied), or that makes none.
// The sentence is about the lowest micro-batch with such a value, whichever rank runs it. If a batch field of
// that micro-batch has a NaN or an infinity, it names field, sample and place. Compiles kernels of single
// ops. Collective over the state's mesh.
FirstNonFinite first_nonfinite(Step& step, const StepInput& input, const State& state);

}  // namespace lockstep::compiler
