// Weights that are read in float8: what the updates that make them do for it.
#pragma once

#include <vector>

#include "compiler/schedule/float8_weights.h"

namespace lockstep::compiler {

// The update of a weight finds the largest magnitude of its rows in bf16, which a scale of the next step, or
// a history, follows from. A scale that follows from a history of the state is known before the updates, as
// soon as the step has found the maxima that enter the history: by it the update rounds the rows to float8,
// too, and no pass over the weight stands between it and what turns it. Fills OwnRows::updated and
// OwnRows::scales, and names in each weight its place there. Not so for weights of which something else reads
// the rows in bf16, which an update does not replace, or which are updated before their history is known.
// Every scale that follows from a history alone is taken for delayed_scales() of it, as delayed_linear_float8
// has it. The bits are those of amax() and quantize().
void round_in_updates(Phases& phases, std::vector<Float8Weight>& weights);

}  // namespace lockstep::compiler
