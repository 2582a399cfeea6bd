// The loops of the reduction over lanes, for this processor's vectors. All versions give the same bits.
#pragma once

#include <cstdint>
#include <vector>

namespace lockstep::compiler {

// Elements processed at once: few enough for the L1 cache with some temporaries. Squares are added in blocks
// of this size, so it affects the bits.
inline constexpr int64_t kBlock = 2048;
// Elements from which starting threads is worthwhile.
inline constexpr int64_t kParallel = 16 * kBlock;

struct LaneKernels {
  // sum[i] = left[i] + right[i]; sum may be left or right.
  void (*add)(float* sum, const float* left, const float* right, int64_t count);
  // The sum of squares in f64: element i goes to accumulator i mod 16, in order; then accumulators j and j +
  // 8, j + 4, j + 2, j + 1 are added.
  double (*squares)(const float* x, int64_t count);
  // to[i] = from[i] with non-temporal stores: the cache lines of `to` are not read first. For sums so large
  // that they leave the caches before they are read again. Other threads may read `to` after a barrier with
  // this thread.
  void (*copy_past)(float* to, const float* from, int64_t count);
};
// The versions that this processor can run, the widest vectors first.
std::vector<LaneKernels> all_lane_kernels();
// The first of them.
const LaneKernels& lane_kernels();

}  // namespace lockstep::compiler
