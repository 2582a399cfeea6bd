// How many pieces, and along which dim.
#pragma once

#include <optional>
#include <vector>

#include "compiler/pass.h"

namespace lockstep::compiler {

// Of [sequences, tokens, ...]: which of the two is cut, and into how many equal parts.
struct PieceCut {
  int dim = 0;
  int64_t pieces = 1;
};

// A product beside its collective. Products of one input share its gather.
struct TravellingProducts {
  double flops = 0;     // of a rank, of all products
  double waves = 0;     // flops that another product wastes, of all
  double bytes = 0;     // that a rank receives
  int collectives = 1;  // behind each other, that bring them
};

// The cut into `pieces` of [sequences, tokens]; none where it divides neither the sequences nor, of a single
// one, the tokens of each of `shards`: the ranks of tp that have a part of each sequence, 1 where each has
// the whole.
std::optional<PieceCut> cut_into(int64_t pieces, int64_t sequences, int64_t tokens, int64_t shards);
// The cut into the most pieces, `most` or fewer; one piece divides all.
PieceCut cut_into_most(int64_t most, int64_t sequences, int64_t tokens, int64_t shards);

// Seconds of a product and its collective in so many pieces, each of which travels beside the next: the
// longer of the two, a piece of the shorter, and what more products waste.
double seconds_of(const TravellingProducts& one, int64_t pieces, const TravelRates& rates);

// The cut of least seconds; one piece where none is shorter.
PieceCut best_cut(const std::vector<TravellingProducts>& products, int64_t sequences, int64_t tokens,
                  int64_t shards, const TravelRates& rates);

}  // namespace lockstep::compiler
