// One body per loop, compiled for several instruction sets: vectors change the speed, but not the order of
// additions.
#include "compiler/codegen/sums/lane_kernels.h"

#include <algorithm>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace lockstep::compiler {

namespace {
inline __attribute__((always_inline)) void add_body(float* sum, const float* left, const float* right,
                                                    int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) sum[i] = left[i] + right[i];
}

// The last count mod 16 elements, and the tree over the accumulators. Inlined, so that it uses its caller's
// instruction set: mixing them stalls the processor.
inline __attribute__((always_inline)) double finish(double (&sums)[16], const float* x, int64_t count) {
  const float* rest = x + count / 16 * 16;
  for (int j = 0; j < count % 16; ++j) sums[j] += static_cast<double>(rest[j]) * static_cast<double>(rest[j]);
#pragma GCC unroll 4
  for (int half = 8; half > 0; half /= 2)
#pragma GCC unroll 8
    for (int j = 0; j < half; ++j) sums[j] += sums[j + half];
  return sums[0];
}

void add_baseline(float* sum, const float* left, const float* right, int64_t count) {
  add_body(sum, left, right, count);
}
double squares_baseline(const float* x, int64_t count) {
  double sums[16] = {};
  for (int64_t i = 0; i + 16 <= count; i += 16)
#pragma omp simd
    for (int j = 0; j < 16; ++j) sums[j] += static_cast<double>(x[i + j]) * static_cast<double>(x[i + j]);
  return finish(sums, x, count);
}
void copy_baseline(float* to, const float* from, int64_t count) {
  std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
}

#if defined(__x86_64__)
// Calls whole(i) for each group of `lanes` elements that is aligned to its size, and copies the rest. Then a
// fence orders the non-temporal stores before all later ones.
template <class Whole>
inline __attribute__((always_inline)) void copy_lines(float* to, const float* from, int64_t count,
                                                      int64_t lanes, Whole whole) {
  const auto line = static_cast<uintptr_t>(lanes) * sizeof(float);
  const auto over = reinterpret_cast<uintptr_t>(to) % line / sizeof(float);
  int64_t i = std::min(count, over ? lanes - static_cast<int64_t>(over) : 0);
  copy_baseline(to, from, i);
  for (; i + lanes <= count; i += lanes) whole(i);
  copy_baseline(to + i, from + i, count - i);
  _mm_sfence();
}

#define LS_AVX2 __attribute__((target("avx2")))
#define LS_AVX512 __attribute__((target("avx512f")))

LS_AVX2 void add_avx2(float* sum, const float* left, const float* right, int64_t count) {
  add_body(sum, left, right, count);
}
LS_AVX512 void add_avx512(float* sum, const float* left, const float* right, int64_t count) {
  add_body(sum, left, right, count);
}

LS_AVX2 void copy_avx2(float* to, const float* from, int64_t count) {
  copy_lines(to, from, count, 8,
             [=](int64_t i) LS_AVX2 { _mm256_stream_ps(to + i, _mm256_loadu_ps(from + i)); });
}
LS_AVX512 void copy_avx512(float* to, const float* from, int64_t count) {
  copy_lines(to, from, count, 16,
             [=](int64_t i) LS_AVX512 { _mm512_stream_ps(to + i, _mm512_loadu_ps(from + i)); });
}

// The product is exact in f64, so a multiply-add would give the same bits; it is nevertheless written as two
// operations.
LS_AVX2 double squares_avx2(const float* x, int64_t count) {
  __m256d a = _mm256_setzero_pd(), b = a, c = a, d = a;
  for (int64_t i = 0; i + 16 <= count; i += 16) {
    const __m256d p = _mm256_cvtps_pd(_mm_loadu_ps(x + i)), q = _mm256_cvtps_pd(_mm_loadu_ps(x + i + 4));
    const __m256d r = _mm256_cvtps_pd(_mm_loadu_ps(x + i + 8)), s = _mm256_cvtps_pd(_mm_loadu_ps(x + i + 12));
    a = _mm256_add_pd(a, _mm256_mul_pd(p, p));
    b = _mm256_add_pd(b, _mm256_mul_pd(q, q));
    c = _mm256_add_pd(c, _mm256_mul_pd(r, r));
    d = _mm256_add_pd(d, _mm256_mul_pd(s, s));
  }
  double sums[16];
  _mm256_storeu_pd(sums, a);
  _mm256_storeu_pd(sums + 4, b);
  _mm256_storeu_pd(sums + 8, c);
  _mm256_storeu_pd(sums + 12, d);
  return finish(sums, x, count);
}

LS_AVX512 double squares_avx512(const float* x, int64_t count) {
  __m512d a = _mm512_setzero_pd(), b = a;
  for (int64_t i = 0; i + 16 <= count; i += 16) {
    const __m512d p = _mm512_maskz_cvtps_pd(0xff, _mm256_loadu_ps(x + i)),
                  q = _mm512_maskz_cvtps_pd(0xff, _mm256_loadu_ps(x + i + 8));
    a = _mm512_add_pd(a, _mm512_mul_pd(p, p));
    b = _mm512_add_pd(b, _mm512_mul_pd(q, q));
  }
  double sums[16];
  _mm512_storeu_pd(sums, a);
  _mm512_storeu_pd(sums + 8, b);
  return finish(sums, x, count);
}
#endif
}  // namespace

std::vector<LaneKernels> all_lane_kernels() {
  std::vector<LaneKernels> sets;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) sets.push_back({add_avx512, squares_avx512, copy_avx512});
  if (__builtin_cpu_supports("avx2")) sets.push_back({add_avx2, squares_avx2, copy_avx2});
#endif
  sets.push_back({add_baseline, squares_baseline, copy_baseline});
  return sets;
}

const LaneKernels& lane_kernels() {
  static const LaneKernels chosen = all_lane_kernels().front();
  return chosen;
}

}  // namespace lockstep::compiler
