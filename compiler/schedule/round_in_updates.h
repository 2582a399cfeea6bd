// Weights that are read in float8 by delayed scales: the updates that make them write them so.
#pragma once

#include <vector>

#include "compiler/schedule/float8_weights.h"

namespace lockstep::compiler {

// A scale that follows from a history of the state is known as soon as the step has found the maxima that
// enter the history, and that is before the updates. So the update of such a weight rounds its rows for the
// next step, and finds the largest magnitude of them, which enters the history then: no pass over the weight
// stands between it and what turns it. Fills OwnRows::updated and OwnRows::scales, and names in each weight
// its place there. Not so for weights of which something else reads the rows in bf16, which an update does
// not replace, or which are updated before their history is known. The bits are those of amax() and
// quantize().
void round_in_updates(Phases& phases, std::vector<Float8Weight>& weights);

}  // namespace lockstep::compiler
