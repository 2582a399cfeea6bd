// The loops of the reduction over lanes, for the vectors of this processor. Every version gives the same
// bits.
#pragma once

#include <cstdint>
#include <vector>

namespace lockstep::compiler {

struct LaneKernels {
  void (*add)(float* sum, const float* left, const float* right,
              int64_t count);  // sum[i] = left[i] + right[i]; sum may be left or right
  // The sum of squares in f64: element i goes to accumulator i mod 16, in order; then accumulators j and j +
  // 8, j + 4, j + 2, j + 1 are added.
  double (*squares)(const float* x, int64_t count);
  // to[i] = from[i], written past the caches: the lines of `to` are not read first. For sums so large that
  // they leave the caches before they are read again. Other threads may read `to` once this one has met a
  // barrier.
  void (*copy_past)(float* to, const float* from, int64_t count);
};
// The versions that this processor can run, the widest vectors first.
std::vector<LaneKernels> all_lane_kernels();
// The first of them.
const LaneKernels& lane_kernels();

}  // namespace lockstep::compiler
