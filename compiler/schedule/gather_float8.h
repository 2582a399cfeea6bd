// Casts weights that are read in float8 before they are gathered, so that float8 travels.
#pragma once

#include "compiler/schedule/phases.h"

namespace lockstep::compiler {

// Of weights that the seed has rounded to make float8 of them, and nothing else. Those that it gathers: each
// rank finds the largest magnitude of each row that it owns, gathers those of all ranks, and casts its rows
// by the largest of all (Phases::own_rows). What travels is half as much as in bf16; the seed turns what
// arrives. The bits are those of quantize. Weights stay as they are where their rows do not divide evenly
// over the ranks, or lie split over a second dim. `by_updates`: maxima, and rows by delayed scales, are what
// the update before has left (round_in_updates), of weights that one rank has whole, too. Returns whether
// there are any; for the backends that stream weights.
bool gather_float8(Phases& phases, bool by_updates);

}  // namespace lockstep::compiler
