// Views: slices and concats that need no copy, because a library call reads or writes them where they lie.
#pragma once

#include "compiler/pass.h"

namespace lockstep::compiler {

// Marks with the attribute alias=true: a slice that only library ops with strided inputs read, and a concat
// whose every input is made, for it alone, by a library op with strided outputs (through reshapes that split
// or join only the dims that stay dense); all of them where they begin at a multiple of 16 bytes. Fusion
// leaves marked nodes alone; the planner gives them no buffer of their own.
Graph mark_views(Graph graph, const PassContext& context);

}  // namespace lockstep::compiler
