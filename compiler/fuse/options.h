// Options that limit fusion.
#pragma once

#include <functional>

#include "core/ir/graph.h"

namespace lockstep::compiler {

struct FuseOptions {
  // False: each primitive becomes its own fused node, so that there is one code generator and bits do not
  // depend on fusion.
  bool enabled = true;
  int max_nodes = 96;    // primitives of one group (copies of views and of cheap producers not counted)
  int max_buffers = 28;  // inputs and outputs of one group
  // Siblings more than this many nodes apart in the graph are not fused, because that would lengthen
  // lifetimes.
  int reach = 96;
  // Whether one kernel should sum over both the rows and the columns of a space of these sizes; empty:
  // always.
  std::function<bool(int64_t rows, int64_t columns)> sums_both_ways = {};
  std::function<bool(const Node&)> is_kernel = {};  // kept nodes that run as their own kernel
};

}  // namespace lockstep::compiler
