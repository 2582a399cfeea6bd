// Functions on AVX-512. They are compiled for it whatever the flags of the rest of the program, and called
// only on processors that have it.
#pragma once

#if defined(__x86_64__)
#if defined(__GNUC__) && !defined(__clang__)  // its intrinsics take registers that they do not read
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>

#define LS_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))
#define LS_AVX512_INLINE __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16"), always_inline)) inline
#endif
