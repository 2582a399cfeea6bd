// Packs bf16 rows into panels, with AVX-512.
#include "compiler/codegen/library/avx512.h"
#include "compiler/codegen/library/panels.h"

#if defined(__x86_64__)

namespace lockstep::compiler::panels {

namespace {
// 32 elements of a row from column `col`, zeros beyond its end and for rows beyond the last.
LS_AVX512_INLINE __m512i elements(const MatrixRows& from, int64_t row, int64_t col) {
  const int64_t left = row < from.count ? from.width - col : 0;
  const __mmask32 there = left >= 32 ? ~0u : left <= 0 ? 0u : (1u << left) - 1;
  return _mm512_maskz_loadu_epi16(there, from.at + row * from.stride + col);
}
// Columns 0 to 15 and 16 to 31 of two rows, in pairs.
struct Pairs {
  __m512i first, second;
};
LS_AVX512_INLINE Pairs paired(__m512i a, __m512i b) {
  const __m512i low = _mm512_unpacklo_epi16(a, b), high = _mm512_unpackhi_epi16(a, b);
  const __m512i first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11),
                second = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
  return {_mm512_permutex2var_epi64(low, first, high), _mm512_permutex2var_epi64(low, second, high)};
}
// Transposes: rows of 16 words become columns.
LS_AVX512_INLINE void transpose(__m512i* r) {
  __m512i t[16];
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  // r[4 g + c] has column 4 l + c of rows 4 g to 4 g + 3 in its quarter l.
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c) {
    t[c] = _mm512_shuffle_i32x4(r[c], r[4 + c], 0x88);
    t[4 + c] = _mm512_shuffle_i32x4(r[c], r[4 + c], 0xdd);
    t[8 + c] = _mm512_shuffle_i32x4(r[8 + c], r[12 + c], 0x88);
    t[12 + c] = _mm512_shuffle_i32x4(r[8 + c], r[12 + c], 0xdd);
  }
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c) {
    r[c] = _mm512_shuffle_i32x4(t[c], t[8 + c], 0x88);
    r[8 + c] = _mm512_shuffle_i32x4(t[c], t[8 + c], 0xdd);
    r[4 + c] = _mm512_shuffle_i32x4(t[4 + c], t[12 + c], 0x88);
    r[12 + c] = _mm512_shuffle_i32x4(t[4 + c], t[12 + c], 0xdd);
  }
}
}  // namespace

LS_AVX512 void fill_left(MatrixRows from, uint16_t* to, int64_t stride) {
  for (int64_t row = 0; row < filled(from.count); ++row)
    for (int64_t col = 0; col < filled(from.width); col += 32)
      _mm512_storeu_si512(to + row * stride + col, elements(from, row, col));
}

LS_AVX512 void fill_left_transposed(MatrixRows from, uint16_t* to, int64_t stride) {
  for (int64_t row = 0; row < filled(from.count); row += 32)
    for (int64_t col = 0; col < filled(from.width); col += 32) {
      __m512i first[16], second[16];
      for (int i = 0; i < 16; ++i) {
        const Pairs two = paired(elements(from, row + 2 * i, col), elements(from, row + 2 * i + 1, col));
        first[i] = two.first, second[i] = two.second;
      }
      transpose(first);
      for (int i = 0; i < 16; ++i) _mm512_storeu_si512(to + (col + i) * stride + row, first[i]);
      transpose(second);
      for (int i = 0; i < 16; ++i) _mm512_storeu_si512(to + (col + 16 + i) * stride + row, second[i]);
    }
}

LS_AVX512 void fill_right(MatrixRows from, uint16_t* to) {
  const int64_t deep = filled(from.count);
  for (int64_t row = 0; row < deep; row += 2)
    for (int64_t col = 0; col < filled(from.width); col += 32) {
      const Pairs two = paired(elements(from, row, col), elements(from, row + 1, col));
      uint16_t* at = to + col * deep + row * 16;
      _mm512_storeu_si512(at, two.first);
      _mm512_storeu_si512(at + 16 * deep, two.second);
    }
}

LS_AVX512 void fill_right_transposed(MatrixRows from, uint16_t* to) {
  const int64_t deep = filled(from.width);
  for (int64_t row = 0; row < filled(from.count); row += 16)
    for (int64_t col = 0; col < deep; col += 32) {
      __m512i tile[16];
      for (int i = 0; i < 16; ++i) tile[i] = elements(from, row + i, col);
      transpose(tile);
      for (int i = 0; i < 16; ++i) _mm512_storeu_si512(to + row * deep + col * 16 + i * 32, tile[i]);
    }
}

}  // namespace lockstep::compiler::panels
#endif
