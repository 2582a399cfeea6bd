// Forward products of weights that are split on tp, cut along their rows, so that one piece computes while
// another travels.
#pragma once

#include "compiler/pass.h"

namespace lockstep::compiler {

// On global shapes, before placements: a `linear` whose weight is split on tp runs on
// CompileOptions::tp_pieces pieces of its input, and so does what is computed from its output token by token
// (additions, activations, norms), up to whatever reads whole values, which reads the pieces put together
// (`concat` with `pieces`). So each piece has a gather, or an exchange, of its own. Pieces are whole
// sequences where these divide, else parts of a single sequence. The backward pass is not cut: sums over
// tokens keep their order, and products of gradients of weights fill its waits (fill_waits).
//
// The number follows from shapes, options and the size of tp alone; with kPiecesByRates it is the one for
// which products and collectives take least together. UserError where it is given and divides neither
// the sequences nor, of a single one, the tokens of each rank.
Graph cut_products(Graph graph, const PassContext& context);

}  // namespace lockstep::compiler
