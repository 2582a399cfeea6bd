// The shape of a convolution or of one of its gradients as a library call, for every target.
#pragma once

#include <string>
#include <vector>

#include "compiler/codegen/library/library.h"

namespace lockstep::compiler {

// One convolution, or the gradient of its input or weight. x [n, channels, spatial...], weight [outputs,
// channels / groups, sizes...], y [n, outputs, counts...]. All are dense, either in this order or all with
// dim 1 last.
struct ConvolutionShape {
  enum class Which { forward, input, weight };
  Which which = Which::forward;
  DType dtype = DType::f32;
  bool bias = false, channels_last = false;
  int64_t n = 0, channels = 0, outputs = 0, groups = 1;
  std::vector<int64_t> spatial, sizes, counts, stride, lo, hi, dilation;
  size_t dims() const { return sizes.size(); }
  int64_t elements() const { return numel(spatial); }
  int64_t places() const { return numel(sizes); }
  int64_t windows() const { return numel(counts); }
  int64_t weights() const { return outputs * (channels / groups) * places(); }
};
std::vector<int64_t> channels_last_strides(const Shape& shape);  // of [N, C, s...] in memory as [N, s..., C]
// InternalError unless all tensors are stored in the order of their dims, or all channels last.
ConvolutionShape convolution_shape(const Node& node, const std::vector<Operand>& in,
                                   const std::vector<Operand>& out);
// Of a node of a graph whose tensors are stored in the order of their dims.
ConvolutionShape convolution_shape(const Graph& graph, const Node& node);
// "convolution f32 n=8 64x24x24 -> 64x24x24 k=3x3 ..."
std::string convolution_text(const ConvolutionShape& shape);
double convolution_flops(const ConvolutionShape& shape);

}  // namespace lockstep::compiler
