// The implementations of convolution on the CPU: oneDNN's primitives, products for windows of one pixel,
// products of columns for outputs of few positions, and our own loops for a depthwise weight's gradient.
#pragma once

#include <memory>

#include "compiler/codegen/library/convolution_shape.h"

namespace lockstep::compiler {

// oneDNN's primitives, channels last inside, in blocks of samples and of channels. bf16 or f16 that oneDNN
// does not multiply correctly is widened to f32 first; those tensors are stored channels first.
bool widens_halves(const ConvolutionShape& shape);
std::unique_ptr<LibraryCall> make_direct_convolution(const ConvolutionShape& shape);
// Windows of one pixel, channels last.
bool is_product(const ConvolutionShape& shape);
std::unique_ptr<LibraryCall> make_product_convolution(const ConvolutionShape& shape);
// The gradient of a depthwise weight (each channel has its own windows), channels last.
bool is_depthwise_weight_gradient(const ConvolutionShape& shape);
std::unique_ptr<LibraryCall> make_depthwise_weight_gradient(const ConvolutionShape& shape);
// Columns (im2col: every window of the input as a row) and sgemm, in blocks of channels; one group.
std::unique_ptr<LibraryCall> make_column_convolution(const ConvolutionShape& shape);

}  // namespace lockstep::compiler
