// Fusion: runs of primitives become `fused` nodes, one generated kernel each.
#pragma once

#include "core/ir/graph.h"

namespace lockstep {

struct FuseOptions {
  bool enabled = true;   // false: every primitive is a fused node of its own, so that there is one code
                         // generator and no bit depends on fusion
  int max_nodes = 96;    // primitives of one group (copies of views and of cheap producers not counted)
  int max_buffers = 28;  // inputs and outputs of one group
  int reach = 96;  // siblings further apart in the graph than this many nodes stay apart: fusing them would
                   // stretch lives of values
};

// Primitives (pointwise, creation, random, reduce, view, take) of the result stand in the bodies of `fused`
// nodes; other nodes are kept, and so is a `reshape` of a dense buffer, which is the same bytes (the planner
// aliases it). Every body fits one kernel (fits_one_kernel).
//
// Candidates are pairs of groups that share a buffer; a pair is legal when its body fits one kernel, which
// asks for an exact index match of everything that is reduced, and when no third node stands between them;
// the score is the bytes that need no longer move. Views and creations are copied into each reader; so are
// cheap producers that read no more bytes than they write. Values are never computed twice when that is dear
// (exp, tanh and the like).
Graph fuse(const Graph& graph, const FuseOptions& options = {});

}  // namespace lockstep
