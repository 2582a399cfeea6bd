// Shape: sizes per tensor dim, row-major, last dim fastest.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/types/dtype.h"

namespace lockstep {

using Shape = std::vector<int64_t>;

int64_t numel(const Shape& shape);  // 1 for a scalar (rank 0)
int64_t bytes_of(DType dtype, const Shape& shape);
bool is_countable(DType dtype,
                  const Shape& shape);  // less than 2^63 bytes, past which products of sizes wrap
std::vector<int64_t> row_major_strides(const Shape& shape);  // in elements
std::string shape_text(DType dtype, const Shape& shape);     // "f32[64,768]"

}  // namespace lockstep
