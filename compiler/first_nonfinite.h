// Where a step stops being finite: the first value of its micro-batches that is NaN or infinite, with op,
// layer and the user's line.
#pragma once

#include <string>

#include "compiler/runtime/step.h"
#include "core/nn/state.h"

namespace lockstep::compiler {

struct FirstNonFinite {
  std::string words;     // one sentence, the same on all ranks
  bool in_data = false;  // the batch itself holds it
};
// Looks at the state, then runs the micro-batches of `input` again, op by op, from the state as it is;
// nothing is written. For a step whose update was not made (StepResult::applied), or that makes none. The
// sentence is that of the lowest micro-batch, whatever rank runs it; where a field of that micro-batch holds
// a NaN or an infinity, it names field, sample and place. Compiles kernels of single ops. Collective over the
// state's mesh.
FirstNonFinite first_nonfinite(Step& step, const StepInput& input, const State& state);

}  // namespace lockstep::compiler
