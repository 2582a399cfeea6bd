// Regions: the memory that a collective reads and the memory that it writes; and a copy of a collective with
// other memory.
#pragma once

#include <cstddef>

#include "core/mesh/group.h"

namespace lockstep::distributed {

struct Regions {
  const void* in = nullptr;
  size_t in_bytes = 0;
  void* out = nullptr;
  size_t out_bytes = 0;
};
// The regions of a collective on `rank`; it must have passed check_collective. A broadcast reads on its root
// and writes on other ranks.
Regions regions_of(const Collective& what, int rank);
// The same collective, reading from `in` and writing to `out`.
Collective over_regions(Collective what, int rank, const void* in, void* out);

}  // namespace lockstep::distributed
