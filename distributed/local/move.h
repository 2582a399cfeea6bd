// The data movement of one collective whose ranks are all in this process.
#pragma once

#include <string>
#include <vector>

#include "core/mesh/group.h"

namespace lockstep::distributed {

// Performs a collective. `by_rank` has what each rank started, in rank order: the same verb with counts that
// agree (see difference). For send and recv, by_rank is {send, recv}. Reductions add in rank order; bf16 and
// f16 are added in f32 and rounded once.
void move_data(const std::vector<const Collective*>& by_rank);

// "" when what rank a and rank b started can be one collective, else what differs: "verb", "dtype", "counts",
// "op", "root".
std::string difference(const Collective& a, int rank_a, const Collective& b, int rank_b);

}  // namespace lockstep::distributed
