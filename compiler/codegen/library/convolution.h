// The ways of a convolution on the CPU: oneDNN's primitives in blocks, products where windows are pixels,
// products of columns for outputs of few positions, and loops of our own for the gradient of a depthwise
// weight.
#pragma once

#include <memory>

#include "compiler/codegen/library/convolution_shape.h"

namespace lockstep::compiler {

// oneDNN's primitives, channels last inside: blocks of samples and of channels. Halves that it does not
// multiply right are widened to f32 first; their tensors lie channels first.
bool widens_halves(const ConvolutionShape& shape);
std::unique_ptr<LibraryCall> make_direct_convolution(const ConvolutionShape& shape);
// Windows of one pixel, channels last.
bool is_product(const ConvolutionShape& shape);
std::unique_ptr<LibraryCall> make_product_convolution(const ConvolutionShape& shape);
// The gradient of a weight whose every channel has windows of its own, channels last.
bool is_depthwise_weight_gradient(const ConvolutionShape& shape);
std::unique_ptr<LibraryCall> make_depthwise_weight_gradient(const ConvolutionShape& shape);
// Columns (every window of the input as a row) and sgemm, in blocks of channels; one group.
std::unique_ptr<LibraryCall> make_column_convolution(const ConvolutionShape& shape);

}  // namespace lockstep::compiler
