// Convolution and its transpose, over any number of spatial dims from 1 to 3. Conventions of dtypes, rounding
// and gradients are those at the head of functions.h.
#pragma once

#include <optional>
#include <vector>

#include "core/functions/shape.h"

namespace lockstep {

// A list has one number per spatial dim, or one number for all of them.
struct ConvolutionOptions {
  std::vector<int64_t> stride = {1};
  std::vector<int64_t> padding = {0};  // on both sides
  std::vector<int64_t> dilation = {1};
  int64_t groups = 1;
  std::optional<PadMode> mode = {};  // values of the padding (functions/shape.h); none: zeros
};

// Cross-correlation: x [N, C, s...], weight [O, C / groups, k...], bias [O] -> [N, O, o...]. o = (s + 2
// padding - dilation (k - 1) - 1) / stride + 1, rounded down. Channels are cut into `groups` consecutive
// parts, and part g of the output reads only part g of the input. An empty Tensor is no bias. bf16 and f16:
// products are exact, sums are in f32, and the result is rounded once, after the bias. Gradients: for x the
// transposed convolution of dy, for the weight the sum of dy x over samples and positions, for the bias the
// sum of dy over both. Each is summed in f32 in a fixed order, and rounded once. UserError when sizes do not
// fit: x, weight and bias, a list of another length than the spatial dims, an output without elements. As
// PyTorch's conv1d, conv2d, conv3d.
Tensor convolution(Tensor x, Tensor weight, Tensor bias = {}, const ConvolutionOptions& how = {},
                   Here at = Here::current());

struct TransposedOptions {
  std::vector<int64_t> stride = {1};
  std::vector<int64_t> padding = {0};         // padding of the forward convolution, on both sides
  std::vector<int64_t> output_padding = {0};  // extra positions at the end; less than stride or dilation
  std::vector<int64_t> dilation = {1};
  int64_t groups = 1;
};
// The gradient of a convolution's input as a function: x [N, I, s...], weight [I, O / groups, k...], bias [O]
// -> [N, O, o...]. o = (s - 1) stride - 2 padding + dilation (k - 1) + output_padding + 1. Rounding as in
// `convolution`, but bf16 and f16 are rounded before the bias is added and after. Gradients: of x the
// convolution of dy, of weight and bias as in `convolution`. UserError as there. As PyTorch's
// conv_transpose1d, conv_transpose2d, conv_transpose3d.
Tensor convolution_transposed(Tensor x, Tensor weight, Tensor bias = {}, const TransposedOptions& how = {},
                              Here at = Here::current());

}  // namespace lockstep
