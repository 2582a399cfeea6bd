// Pooling and windows over 1 to 3 spatial dims. Conventions of dtypes, rounding and gradients are those at
// the head of functions.h. A list of one number applies to all spatial dims.
#pragma once

#include <vector>

#include "core/ops/apply.h"

namespace lockstep {

struct PoolOptions {
  std::vector<int64_t> stride = {};     // none: the size of the window
  std::vector<int64_t> padding = {0};   // on both sides, at most half of the window
  std::vector<int64_t> dilation = {1};  // of max_pool
  bool count_padding = true;            // avg_pool: padding counts as zeros; else the mean is only over x
};

// The largest element of each window: floats [N, C, s...] -> [N, C, o...], o = (s + 2 padding - dilation
// (size - 1) - 1) / stride + 1, rounded down. Padding is chosen only if the window has nothing else; a NaN
// wins. Gradient: dy to the first largest element of the window in row-major order, overlaps added in f32.
// UserError when a window does not fit. As PyTorch's max_pool1d, 2d, 3d (ceil_mode off).
Tensor max_pool(Tensor x, std::vector<int64_t> size, const PoolOptions& how = {}, Here at = Here::current());
// The mean of each window: floats [N, C, s...] -> [N, C, o...], summed in f32 (f64 for f64), rounded once.
// Gradient: dy / count to each element of the window. UserError when a window does not fit. As PyTorch's
// avg_pool1d, 2d, 3d (ceil_mode off).
Tensor avg_pool(Tensor x, std::vector<int64_t> size, const PoolOptions& how = {}, Here at = Here::current());

// The mean and the largest element over `out` parts of each spatial dim. Part i of s elements is [floor(i s /
// out), ceil((i + 1) s / out)); parts overlap if out does not divide s. [N, C, s...] -> [N, C, out...].
// UserError unless each out is 1 or more. As PyTorch's adaptive_avg_pool and adaptive_max_pool.
Tensor adaptive_avg_pool(Tensor x, std::vector<int64_t> out, Here at = Here::current());
Tensor adaptive_max_pool(Tensor x, std::vector<int64_t> out, Here at = Here::current());
// Over all spatial dims: [N, C, s...] -> [N, C].
Tensor global_avg_pool(Tensor x, Here at = Here::current());
Tensor global_max_pool(Tensor x, Here at = Here::current());

// The elements of each window as a column: [N, C, s...] -> [N, C prod(size), windows], zeros outside; rows
// and windows in row-major order. Gradient: fold of dy. As PyTorch's unfold, for any number of spatial dims.
Tensor unfold(Tensor x, std::vector<int64_t> size, const PoolOptions& how = {}, Here at = Here::current());
// Its transpose: [N, C prod(size), windows] -> [N, C, spatial...], overlaps added in f32, in ascending order
// of the position in the window. Gradient: unfold of dy. As PyTorch's fold.
Tensor fold(Tensor columns, std::vector<int64_t> spatial, std::vector<int64_t> size,
            const PoolOptions& how = {}, Here at = Here::current());

}  // namespace lockstep
