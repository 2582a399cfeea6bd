// Places of the values of a graph that need no own buffer: views inside the viewed value, parts of a concat
// inside the whole.
#pragma once

#include <cstdint>
#include <vector>

#include "core/ir/graph.h"

namespace lockstep::compiler {

// The place of a value: inside the buffer of a root value (an arena buffer or a graph input).
struct Place {
  ValueId root;
  int64_t offset = 0;  // bytes
  std::vector<int64_t> strides;
};
// One per value of a lowered graph. Aliases are inside their roots, and the producers of concat parts write
// into the concat. A convolution writes through a permute that is an alias. InternalError for a reshape that
// no strides describe.
PerValue<Place> places_of(const Graph& graph);

}  // namespace lockstep::compiler
