// One body per loop, compiled for several instruction sets: vectors change the speed, never the order of additions.
#include "compiler/run/lane_kernels.h"

#include <cstring>

namespace lockstep {

namespace {
using Doubles = double __attribute__((vector_size(64)));
using Floats = float __attribute__((vector_size(32)));

inline __attribute__((always_inline)) void add_body(float* sum, const float* left, const float* right, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) sum[i] = left[i] + right[i];
}

inline __attribute__((always_inline)) double squares_body(const float* x, int64_t count) {
  Doubles low = {}, high = {};  // accumulators 0 to 7 and 8 to 15
  int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    Floats a, b;
    std::memcpy(&a, x + i, sizeof a);
    std::memcpy(&b, x + i + 8, sizeof b);
    const Doubles wide_a = __builtin_convertvector(a, Doubles), wide_b = __builtin_convertvector(b, Doubles);
    low += wide_a * wide_a;
    high += wide_b * wide_b;
  }
  double sums[16];
  std::memcpy(sums, &low, sizeof low);
  std::memcpy(sums + 8, &high, sizeof high);
  for (int j = 0; i < count; ++i, ++j) sums[j] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  for (int half = 8; half > 0; half /= 2)
    for (int j = 0; j < half; ++j) sums[j] += sums[j + half];
  return sums[0];
}

void add_baseline(float* sum, const float* left, const float* right, int64_t count) { add_body(sum, left, right, count); }
double squares_baseline(const float* x, int64_t count) { return squares_body(x, count); }
#if defined(__x86_64__)
__attribute__((target("avx2"))) void add_avx2(float* sum, const float* left, const float* right, int64_t count) {
  add_body(sum, left, right, count);
}
__attribute__((target("avx2"))) double squares_avx2(const float* x, int64_t count) { return squares_body(x, count); }
__attribute__((target("avx512f"))) void add_avx512(float* sum, const float* left, const float* right, int64_t count) {
  add_body(sum, left, right, count);
}
__attribute__((target("avx512f"))) double squares_avx512(const float* x, int64_t count) { return squares_body(x, count); }
#endif
}  // namespace

std::vector<LaneKernels> all_lane_kernels() {
  std::vector<LaneKernels> sets;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) sets.push_back({add_avx512, squares_avx512});
  if (__builtin_cpu_supports("avx2")) sets.push_back({add_avx2, squares_avx2});
#endif
  sets.push_back({add_baseline, squares_baseline});
  return sets;
}

const LaneKernels& lane_kernels() {
  static const LaneKernels chosen = all_lane_kernels().front();
  return chosen;
}

}  // namespace lockstep
