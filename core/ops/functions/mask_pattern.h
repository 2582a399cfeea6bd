// What a mask of attention says, where it follows from indices and lengths: read from the nodes that make it.
#pragma once

#include <optional>

#include "core/ops/tensor.h"

namespace lockstep::functions {

struct MaskPattern {
  bool causal = false;  // key <= token
  int64_t window = 0;   // key > token - window; 0: none
  Tensor lengths;       // i32 [B]: key < length; empty: none
};
// The mask, whose dims are matched from the last with `scores` [batch, heads, tokens, keys], as a pattern
// that says the same; nullopt where it is something else. Known are comparisons (< <= > >=, !) of sums and
// differences of indices, numbers and an i32 tensor [batch], joined by &&, triangles of ones (tril, triu),
// and views of all these.
std::optional<MaskPattern> recognised_mask(const Tensor& mask, const Shape& scores);

}  // namespace lockstep::functions
