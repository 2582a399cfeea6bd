// Channels last: convolutions whose tensors lie [N, s..., C] in memory, and what is computed between them.
#pragma once

#include <functional>

#include "compiler/pass.h"

namespace lockstep::compiler {

// Rewrites a graph of primitives and library calls so that the convolutions that `wants` names read and write
// tensors that lie channels last, and so do pointwise ops, reductions, pads, slices and concats on the way
// from one to the next: their values are permuted, not their meaning. A convolution itself keeps its op and
// its shapes [N, C, s...]; it sees its tensors through permutes with alias=true, which no call runs
// (program/places.h gives them strides). What is read by anything else is permuted back by a kernel.
//
// The graph is returned as it was where such kernels would move more bytes than half of what the convolutions
// read and write, weights aside. Values are those of the graph before; the order of a sum is that of its new
// place.
using WantsChannelsLast = std::function<bool(const Graph&, const Node&)>;
Graph with_channels_last(const Graph& graph, const WantsChannelsLast& wants);

// The pass: as the target wants it.
Graph channels_last(Graph graph, const PassContext& context);

}  // namespace lockstep::compiler
