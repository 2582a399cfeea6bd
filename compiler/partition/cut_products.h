// Cuts forward products of weights that are split on tp along their rows, so that one piece computes while
// another travels.
#pragma once

#include "compiler/pass/pass.h"

namespace lockstep::compiler {

// On global shapes, before placements. A `linear` whose weight is split on tp runs on
// CompileOptions::tp_pieces pieces of its input. So does everything that is computed from its output token by
// token (additions, activations, norms), up to the first op that reads whole values. That op reads the pieces
// put together (`concat` with `pieces`). So each piece has its own gather or exchange.
// Pieces are whole sequences if these divide, else parts of a single sequence. The backward pass is not cut:
// sums over tokens keep their order, and products of weight gradients fill its waits (fill_waits).
//
// The number of pieces depends only on shapes, options and the size of tp. With kPiecesByRates it is the
// number with the shortest time for products and collectives. UserError if the given number divides neither
// the sequences nor, for a single sequence, the tokens of each rank.
Graph cut_products(Graph graph, const PassContext& context);

}  // namespace lockstep::compiler
