// How many pieces cut_products makes, and along which dim.
#pragma once

#include <optional>
#include <vector>

#include "compiler/pass/pass.h"

namespace lockstep::compiler {

// Which dim of [sequences, tokens, ...] is cut, and into how many equal parts.
struct PieceCut {
  int dim = 0;
  int64_t pieces = 1;
};

// Products and their collective. Products of one input share its gather.
struct TravellingProducts {
  double flops = 0;     // of a rank, for all products
  double waves = 0;     // flops that one more product wastes, for all
  double bytes = 0;     // that a rank receives
  int collectives = 1;  // that bring these bytes, one after another
};

// The cut into `pieces` of [sequences, tokens]. None if it divides neither the sequences nor, for a single
// sequence, the tokens of each of `shards`. `shards` are the ranks of tp that have a part of each sequence; 1
// if each has the whole.
std::optional<PieceCut> cut_into(int64_t pieces, int64_t sequences, int64_t tokens, int64_t shards);
// The cut into the most pieces, `most` or fewer; one piece divides all.
PieceCut cut_into_most(int64_t most, int64_t sequences, int64_t tokens, int64_t shards);

// Seconds of a product and its collective in `pieces` pieces, each of which travels while the next computes:
// the longer of the two, plus one piece of the shorter, plus the waste of more products.
double seconds_of(const TravellingProducts& one, int64_t pieces, const TravelRates& rates);

// The cut with the fewest seconds; one piece if no cut is shorter.
PieceCut best_cut(const std::vector<TravellingProducts>& products, int64_t sequences, int64_t tokens,
                  int64_t shards, const TravelRates& rates);

}  // namespace lockstep::compiler
