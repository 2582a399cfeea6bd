// Redistribution as box arithmetic: which rank sends which box to whom, to go from one layout to another.
#pragma once

#include <vector>

#include "core/mesh/layout.h"

namespace lockstep {

struct Transfer {
  int64_t from_rank;
  int64_t to_rank;
  Box box;  // global coordinates
};

// Every box that each rank of `to_mesh` needs under `to`, with the rank of `from_mesh` that provides it. A
// rank that already holds a box provides it itself; else holders are used in turn. Partial and PerLane have
// no boxes: InternalError.
std::vector<Transfer> redistribute(const Shape& shape, const Layout& from, const Mesh& from_mesh,
                                   const Layout& to, const Mesh& to_mesh);

}  // namespace lockstep
