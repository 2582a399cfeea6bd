// Delayed scales of float8: one scale for a tensor that many layers read.
#pragma once

#include "compiler/pass/pass.h"

namespace lockstep::compiler {

// If products in float8 with delayed scales (delayed_linear_float8) read one tensor, as q, k and v do, each
// takes its scale from the history of the first; so do their gradients. The tensor is rounded, transposed and
// stored once.
// Histories of layers that have always read a tensor together have equal rows for it, so the bits are those
// of separate scales. A layer that joined later uses the history of the first. Histories of another length
// are left alone. Each history still records the values that its own layer read (record_amax).
Graph share_scales(Graph graph, const PassContext& context);

}  // namespace lockstep::compiler
