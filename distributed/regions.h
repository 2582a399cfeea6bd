// The memory of a collective as two regions, what it reads and what it writes, and the same collective over
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
// The regions of a collective that has passed check_collective, seen from `rank`. A broadcast reads on its
// root and writes elsewhere.
Regions regions_of(const Collective& what, int rank);
// The same collective, reading from `in` and writing to `out`.
Collective over_regions(Collective what, int rank, const void* in, void* out);

}  // namespace lockstep::distributed
