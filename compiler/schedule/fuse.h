// Fusion: runs of primitives become `fused` nodes, one generated kernel each.
#pragma once

#include "compiler/schedule/fuse_options.h"
#include "core/ir/graph.h"

namespace lockstep::compiler {

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

}  // namespace lockstep::compiler
