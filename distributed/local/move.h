// The data movement of one collective whose ranks are all in this process.
#pragma once

#include <string>
#include <vector>

#include "core/mesh/group.h"

namespace lockstep::distributed {

// Performs a collective. `by_rank` has the collective of each rank, in rank order: the same verb with counts
// that agree (see difference). For send and recv, by_rank is {send, recv}. Reductions add in rank order; bf16
// and f16 are added in f32 and rounded once.
void move_data(const std::vector<const Collective*>& by_rank);

// Returns "" if the collectives of ranks a and b match, else what differs: "verb", "dtype", "counts", "op" or
// "root".
std::string difference(const Collective& a, int rank_a, const Collective& b, int rank_b);

}  // namespace lockstep::distributed
