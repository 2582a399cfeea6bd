// The ways of a convolution on the CPU: oneDNN's primitives in blocks, and products of columns for outputs of
// few positions.
#pragma once

#include <memory>

#include "compiler/codegen/library/convolution_shape.h"

namespace lockstep::compiler {

// oneDNN's primitives, channels last inside: blocks of samples and of channels.
std::unique_ptr<LibraryCall> make_direct_convolution(const ConvolutionShape& shape);
// Columns (every window of the input as a row) and sgemm, in blocks of channels; one group.
std::unique_ptr<LibraryCall> make_column_convolution(const ConvolutionShape& shape);

}  // namespace lockstep::compiler
