// How far fusion goes.
#pragma once

#include <functional>

#include "core/ir/graph.h"

namespace lockstep::compiler {

struct FuseOptions {
  bool enabled = true;   // false: every primitive is a fused node of its own, so that there is one code
                         // generator and no bit depends on fusion
  int max_nodes = 96;    // primitives of one group (copies of views and of cheap producers not counted)
  int max_buffers = 28;  // inputs and outputs of one group
  int reach = 96;  // siblings further apart in the graph than this many nodes stay apart: fusing them would
                   // stretch lives of values
  // Whether one kernel should sum over rows and over columns of a space of these sizes; empty: always.
  std::function<bool(int64_t rows, int64_t columns)> sums_both_ways = {};
  std::function<bool(const Node&)> is_kernel = {};  // kept nodes that run as a kernel of their own
};

}  // namespace lockstep::compiler
