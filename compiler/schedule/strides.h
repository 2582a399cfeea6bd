// Strided values: where the elements of a view lie inside the buffer of another value.
#pragma once

#include <optional>
#include <vector>

#include "core/types/shape.h"

namespace lockstep::compiler {

// Strides of the same elements under another shape, or nullopt when no strides describe it (as
// torch.Tensor.view decides).
std::optional<std::vector<int64_t>> reshape_strides(const Shape& shape, const std::vector<int64_t>& strides,
                                                    const Shape& to);

}  // namespace lockstep::compiler
