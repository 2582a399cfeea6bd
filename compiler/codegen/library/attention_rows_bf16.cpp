// Loops over one row of attention scores on AVX-512 bf16.
#include "compiler/codegen/library/attention_rows_bf16.h"
#include "compiler/codegen/library/avx512.h"

#if defined(__x86_64__)
#include <limits>

namespace lockstep::compiler::rows {

namespace {
constexpr float kNothing = -std::numeric_limits<float>::infinity();

LS_AVX512_INLINE __mmask16 lanes(int64_t count) {
  return count >= 16 ? static_cast<__mmask16>(0xffff) : static_cast<__mmask16>((1u << count) - 1);
}
// exp for x up to 88: 2^n p(r) with the Cephes coefficients. NaN gives NaN. Results below the smallest normal
// number are 0, because subnormal numbers cost hundreds of cycles.
LS_AVX512_INLINE __m512 exp_of(__m512 x) {
  const __m512 least = _mm512_set1_ps(-87.3f);
  const __mmask16 normal = _mm512_cmp_ps_mask(x, least, _CMP_NLT_UQ);
  x = _mm512_max_ps(least, x);
  const __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(1.44269504088896341f)), 0x08);
  __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693359375f), x);
  r = _mm512_fnmadd_ps(n, _mm512_set1_ps(-2.12194440e-4f), r);
  __m512 p = _mm512_set1_ps(1.9875691500e-4f);
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.3981999507e-3f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(8.3334519073e-3f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(4.1665795894e-2f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.6666665459e-1f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(5.0000001201e-1f));
  p = _mm512_fmadd_ps(p, _mm512_mul_ps(r, r), _mm512_add_ps(r, _mm512_set1_ps(1.0f)));
  return _mm512_maskz_scalef_ps(normal, p, n);
}
LS_AVX512_INLINE void store_bf16(uint16_t* to, __mmask16 there, __m512 x) {
  _mm256_mask_storeu_epi16(to, there, reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(x)));
}
LS_AVX512_INLINE __m512 load_bf16(const uint16_t* from, __mmask16 there) {
  const __m256i halves = _mm256_maskz_loadu_epi16(there, from);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}
}  // namespace

LS_AVX512 float softmax_chunk(const float* s, int64_t count, float scale, uint16_t* p,
                              RunningSoftmax* running) {
  const __m512 by = _mm512_set1_ps(scale), nothing = _mm512_set1_ps(kNothing);
  __m512 best = nothing;
  for (int64_t j = 0; j < count; j += 16) {
    const __mmask16 there = lanes(count - j);
    const __m512 x = _mm512_mul_ps(_mm512_maskz_loadu_ps(there, s + j), by);
    best = _mm512_mask_max_ps(best, there, x, best);  // of a NaN and a number, it keeps the number
  }
  const float before = running->max, most = _mm512_reduce_max_ps(best), max = most > before ? most : before;
  const __m512 top = _mm512_set1_ps(max);
  __m512 sums = _mm512_setzero_ps();
  for (int64_t j = 0; j < count; j += 16) {
    const __mmask16 there = lanes(count - j);
    const __m512 x = exp_of(_mm512_fmsub_ps(_mm512_maskz_loadu_ps(there, s + j), by, top));
    sums = _mm512_mask_add_ps(sums, there, sums, x);
    store_bf16(p + j, there, x);
  }
  const float factor = before == max ? 1.0f : _mm512_cvtss_f32(exp_of(_mm512_set1_ps(before - max)));
  running->max = max;
  running->sum = running->sum * factor + _mm512_reduce_add_ps(sums);
  return factor;
}

LS_AVX512 void backward_chunk(const float* s, const float* dp, int64_t count, const BackwardRow& row,
                              uint16_t* p, uint16_t* ds, float* dbias) {
  const __m512 scale = _mm512_set1_ps(row.scale), lse = _mm512_set1_ps(row.lse),
               delta = _mm512_set1_ps(row.delta), by = _mm512_set1_ps(row.by);
  for (int64_t j = 0; j < count; j += 16) {
    const __mmask16 there = lanes(count - j);
    const __m512 x = exp_of(_mm512_fmsub_ps(_mm512_maskz_loadu_ps(there, s + j), scale, lse));
    const __m512 g = _mm512_mul_ps(x, _mm512_sub_ps(_mm512_maskz_loadu_ps(there, dp + j), delta));
    store_bf16(p + j, there, x);
    store_bf16(ds + j, there, _mm512_mul_ps(g, by));
    if (dbias) _mm512_mask_storeu_ps(dbias + j, there, g);
  }
}

LS_AVX512 float dot_bf16(const uint16_t* a, const uint16_t* b, int64_t count) {
  __m512 sums = _mm512_setzero_ps();
  for (int64_t j = 0; j < count; j += 16) {
    const __mmask16 there = lanes(count - j);
    sums = _mm512_fmadd_ps(load_bf16(a + j, there), load_bf16(b + j, there), sums);
  }
  return _mm512_reduce_add_ps(sums);
}
LS_AVX512 void round_row(const float* row, int64_t count, float by, uint16_t* to) {
  const __m512 times = _mm512_set1_ps(by);
  for (int64_t j = 0; j < count; j += 16) {
    const __mmask16 there = lanes(count - j);
    store_bf16(to + j, there, _mm512_mul_ps(_mm512_maskz_loadu_ps(there, row + j), times));
  }
}

}  // namespace lockstep::compiler::rows
#endif
