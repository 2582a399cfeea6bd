// Casts weights that are read in float8 before they are gathered, so that float8 is sent.
#pragma once

#include "compiler/schedule/phases.h"

namespace lockstep::compiler {

// For weights that the seed rounds only to convert them to float8. If the seed gathers them, each rank finds
// the largest magnitude of each of its rows, gathers those of all ranks, and casts its rows by the overall
// largest (Phases::own_rows). This halves the traffic of bf16; the seed transposes the received rows. The
// bits are those of quantize.
// Weights stay unchanged if their rows do not divide evenly over the ranks, or are split over a second dim.
// `by_updates`: the previous update has already left the maxima, and the rows by delayed scales
// (round_in_updates), also for weights that one rank has whole. Returns whether there are any. For backends
// that stream weights.
bool gather_float8(Phases& phases, bool by_updates);

}  // namespace lockstep::compiler
