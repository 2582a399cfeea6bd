// Where the values of a graph lie that need no buffer of their own: views inside of what they view, parts of
// a concat inside of the whole.
#pragma once

#include <cstdint>
#include <vector>

#include "core/ir/graph.h"

namespace lockstep::compiler {

// Where a value lies: inside the buffer of a root value (an arena buffer or a graph input).
struct Place {
  ValueId root;
  int64_t offset = 0;  // bytes
  std::vector<int64_t> strides;
};
// One per value of a lowered graph: aliases lie in their roots, the producers of concat parts write into the
// concat, a convolution through a permute that is an alias. InternalError for a reshape that no strides
// describe.
PerValue<Place> places_of(const Graph& graph);

}  // namespace lockstep::compiler
