// Views: slices and concats without a copy, because a library call reads or writes them in place.
#pragma once

#include "compiler/pass/pass.h"

namespace lockstep::compiler {

// Sets the attribute alias=true on two kinds of nodes, if they begin at a multiple of 16 bytes:
//   - a slice that only library ops with strided inputs read;
//   - a concat each of whose inputs is made only for it by a library op with strided outputs (through
//     reshapes that split or join only dims that stay dense).
// Fusion leaves marked nodes alone; the planner gives them no buffer of their own.
Graph mark_views(Graph graph, const PassContext& context);

}  // namespace lockstep::compiler
