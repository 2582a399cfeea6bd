// Fusion: combines primitives into `fused` nodes, one generated kernel each.
#pragma once

#include "compiler/fuse/options.h"
#include "core/ir/graph.h"

namespace lockstep::compiler {

// In the result, primitives (pointwise, creation, random, reduce, view, take) are inside the bodies of
// `fused` nodes. Other nodes are kept, and so is a `reshape` of a dense buffer, whose bytes are the same (the
// planner aliases it). Every body fits one kernel (fits_one_kernel).
//
// Candidates are pairs of groups that share a buffer. A pair is legal if its body fits one kernel, which
// requires an exact index match of everything that is reduced, and if no third node lies on a path between
// them. Its score is the bytes that no longer move. Views and creations are copied into each reader; so are
// cheap producers that read no more bytes than they write. Expensive values (exp, tanh and the like) are
// never computed twice.
Graph fuse(const Graph& graph, const FuseOptions& options = {});

}  // namespace lockstep::compiler
