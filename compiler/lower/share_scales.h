// Delayed scales of float8: one for a tensor that many layers read.
#pragma once

#include "compiler/pass.h"

namespace lockstep::compiler {

// Of products in float8 with delayed scales (delayed_linear_float8) that read one tensor, as q, k and v do,
// each takes the scale of it from the history of the first, and so do their gradients: it is rounded, turned
// and kept once. Histories of layers that have always read it together have equal rows of it, so the bits are
// those of a scale for each; a layer that joined later goes by what the first has seen. Histories of another
// number of steps are left alone. What enters a history stays what its own layer has read (record_amax).
Graph share_scales(Graph graph, const PassContext& context);

}  // namespace lockstep::compiler
