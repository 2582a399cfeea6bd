// Channels last: stores the tensors of convolutions, and of the ops between them, as [N, s..., C].
#pragma once

#include <functional>

#include "compiler/pass/pass.h"

namespace lockstep::compiler {

// Rewrites a graph of primitives and library calls so that the convolutions that `wants` selects read and
// write channels-last tensors. So do pointwise ops, reductions, pads, slices and concats between them: their
// values are permuted, but keep their meaning. A convolution keeps its op and its shapes [N, C, s...]. It
// sees its tensors through permutes with alias=true, which need no call (program/blocks/places.h gives them
// strides). A kernel permutes values back for all other readers.
//
// Returns the graph unchanged if such kernels would move more than half the bytes that the convolutions read
// and write, not counting weights. Values are the same as before; the order of a sum is that of the new
// layout.
using WantsChannelsLast = std::function<bool(const Graph&, const Node&)>;
Graph with_channels_last(const Graph& graph, const WantsChannelsLast& wants);

// The pass, with the target's wishes.
Graph channels_last(Graph graph, const PassContext& context);

}  // namespace lockstep::compiler
