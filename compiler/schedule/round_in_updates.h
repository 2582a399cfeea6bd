// Moves work for float8 weights into the updates that write them.
#pragma once

#include <vector>

#include "compiler/schedule/float8_weights.h"

namespace lockstep::compiler {

// The update of a weight finds the largest magnitude of its bf16 rows, from which a scale of the next step,
// or a history, follows. A scale that follows from a history in the state is known before the updates, as
// soon as the step has found the maxima that enter the history. The update then also rounds the rows to
// float8 by it, so that no pass over the weight is needed before it is transposed. Fills OwnRows::updated and
// OwnRows::scales, and sets each weight's index there.
// Excluded are weights whose bf16 rows have other readers, weights that no update replaces, and weights that
// are updated before their history is known. Every scale that follows only from a history is assumed to be
// its delayed_scales(), as in delayed_linear_float8. The bits are those of amax() and quantize().
void round_in_updates(Phases& phases, std::vector<Float8Weight>& weights);

}  // namespace lockstep::compiler
