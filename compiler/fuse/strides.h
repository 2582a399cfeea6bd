// Strided values: positions of the elements of a view in the buffer of another value.
#pragma once

#include <optional>
#include <vector>

#include "core/types/shape.h"

namespace lockstep::compiler {

// Strides of the same elements under another shape, or nullopt if no strides describe it (the rule of
// torch.Tensor.view).
std::optional<std::vector<int64_t>> reshape_strides(const Shape& shape, const std::vector<int64_t>& strides,
                                                    const Shape& to);

}  // namespace lockstep::compiler
