// Text of the CUDA prelude: types, memory, conversions, arithmetic; warp trees; Philox.
#include "compiler/codegen/cuda/loops/prelude.h"

namespace lockstep::compiler::cuda {

namespace {

constexpr std::string_view kTypes = R"(
#pragma nv_diag_suppress 177
typedef signed char i8; typedef unsigned char u8; typedef unsigned short u16;
typedef int i32; typedef unsigned u32; typedef long i64; typedef unsigned long u64;
#define LS_F static __device__ __forceinline__
#define LS_EACH(n) _Pragma("unroll") for (int j = 0; j < (n); ++j)
template <int S> struct ls_bits_of; template <> struct ls_bits_of<1> { typedef u8 type; }; template <> struct ls_bits_of<2> { typedef u16 type; };
template <> struct ls_bits_of<4> { typedef u32 type; }; template <> struct ls_bits_of<8> { typedef u64 type; };
)";

// N neighbouring elements of S bytes in their memory layout, moved in words of 16, 8, 4, 2 or 1 bytes, to
// which they are aligned.
constexpr std::string_view kMemory = R"(
template <int S, int N> struct ls_raw {
  typedef typename ls_bits_of<S>::type bits;
  static constexpr int bytes = S * N, words = bytes < 4 ? 1 : bytes / 4;
  u32 w[words];
  __device__ __forceinline__ bits get(int j) const {
    if constexpr (S == 8) return (u64)w[2 * j] | (u64)w[2 * j + 1] << 32;
    else if constexpr (S == 4) return w[j];
    else if constexpr (S == 2) return (u16)(w[j / 2] >> (j % 2 * 16));
    else return (u8)(w[j / 4] >> (j % 4 * 8));
  }
  __device__ __forceinline__ void set(int j, bits x) {  // of zeros, each place once
    if constexpr (S == 8) w[2 * j] = (u32)x, w[2 * j + 1] = (u32)(x >> 32);
    else if constexpr (S == 4) w[j] = x;
    else if constexpr (S == 2) w[j / 2] |= (u32)x << (j % 2 * 16);
    else w[j / 4] |= (u32)x << (j % 4 * 8);
  }
  static __device__ __forceinline__ ls_raw zeros() { ls_raw r; LS_EACH(words) r.w[j] = 0; return r; }
  static __device__ __forceinline__ ls_raw load(const void* p, i64 i) {
    ls_raw r; const char* at = (const char*)p + i * S;
    if constexpr (bytes % 16 == 0) { LS_EACH(bytes / 16) { const uint4 v = ((const uint4*)at)[j]; r.w[4 * j] = v.x; r.w[4 * j + 1] = v.y; r.w[4 * j + 2] = v.z; r.w[4 * j + 3] = v.w; } }
    else if constexpr (bytes == 8) { const uint2 v = *(const uint2*)at; r.w[0] = v.x; r.w[1] = v.y; }
    else if constexpr (bytes == 4) r.w[0] = *(const u32*)at;
    else if constexpr (bytes == 2) r.w[0] = *(const u16*)at;
    else r.w[0] = *(const u8*)at;
    return r;
  }
  __device__ __forceinline__ void store(void* p, i64 i) const {
    char* at = (char*)p + i * S;
    if constexpr (bytes % 16 == 0) { LS_EACH(bytes / 16) ((uint4*)at)[j] = make_uint4(w[4 * j], w[4 * j + 1], w[4 * j + 2], w[4 * j + 3]); }
    else if constexpr (bytes == 8) *(uint2*)at = make_uint2(w[0], w[1]);
    else if constexpr (bytes == 4) *(u32*)at = w[0];
    else if constexpr (bytes == 2) *(u16*)at = (u16)w[0];
    else *(u8*)at = (u8)w[0];
  }
};
// Two neighbours rounded at once.
LS_F u32 ls_pack_bf16(float a, float b) { u32 w; asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(w) : "f"(b), "f"(a)); return w; }
LS_F u32 ls_pack_f16(float a, float b) { u32 w; asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(w) : "f"(b), "f"(a)); return w; }
// Four: to nearest even, beyond the largest number that one.
#define LS_PACK_FLOAT8(N, F) LS_F u32 ls_pair_##N(float a, float b) { \
  u16 w; asm("cvt.rn.satfinite." F "x2.f32 %0, %1, %2;" : "=h"(w) : "f"(b), "f"(a)); return w; } \
LS_F u32 ls_pack_##N(float a, float b, float c, float d) { return ls_pair_##N(a, b) | ls_pair_##N(c, d) << 16; }
LS_PACK_FLOAT8(f8_e4m3, "e4m3") LS_PACK_FLOAT8(f8_e5m2, "e5m2")
// Chunks on their way into shared memory, where each of T threads has its own places, which no other thread touches: 16 bytes of all
// threads side by side, then the next 16. A thread sees a chunk when it has waited for all but the groups that it committed later.
template <int B> LS_F void ls_fetch(char* to, const void* from) {
  const u32 at = (u32)__cvta_generic_to_shared(to);
  if constexpr (B == 16) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(at), "l"(from) : "memory");
  else asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" :: "r"(at), "l"(from), "n"(B) : "memory");
}
LS_F void ls_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> LS_F void ls_wait() { asm volatile("cp.async.wait_group %0;" :: "n"(N) : "memory"); }
template <int S, int N, int T> struct ls_stage {
  static constexpr int bytes = S * N, piece = bytes < 16 ? bytes : 16, pieces = bytes / piece;
  static __device__ __forceinline__ void fetch(char* at, const void* p, i64 i) {
    LS_EACH(pieces) ls_fetch<piece>(at + threadIdx.x * piece + j * T * piece, (const char*)p + i * S + j * piece);
  }
  static __device__ __forceinline__ ls_raw<S, N> get(const char* at) {
    ls_raw<S, N> r;
    LS_EACH(pieces) {
      const ls_raw<piece / 4, 4> one = ls_raw<piece / 4, 4>::load(at + threadIdx.x * piece + j * T * piece, 0);
      _Pragma("unroll") for (int i = 0; i < piece / 4; ++i) r.w[j * piece / 4 + i] = one.w[i];
    }
    return r;
  }
};
// From the bits of an element to its register value and back; a bf16 or f16 in a register is exact in its dtype.
LS_F float ls_from_f32(u32 b) { return __uint_as_float(b); } LS_F u32 ls_into_f32(float x) { return __float_as_uint(x); }
LS_F double ls_from_f64(u64 b) { return __longlong_as_double((long long)b); } LS_F u64 ls_into_f64(double x) { return (u64)__double_as_longlong(x); }
LS_F float ls_from_bf16(u16 b) { return __uint_as_float((u32)b << 16); } LS_F u16 ls_into_bf16(float x) { return (u16)(__float_as_uint(x) >> 16); }
LS_F float ls_from_f16(u16 b) { float x; asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(b)); return x; }
LS_F u16 ls_into_f16(float x) { u16 b; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(b) : "f"(x)); return b; }
LS_F bool ls_from_bool(u8 b) { return b != 0; } LS_F u8 ls_into_bool(bool x) { return x; }
#define LS_INT(N, U) LS_F N ls_from_##N(U b) { return (N)b; } LS_F U ls_into_##N(N x) { return (U)x; }
typedef u8 f8_e4m3; typedef u8 f8_e5m2;  // bits, with which nothing computes
LS_INT(f8_e4m3, u8) LS_INT(f8_e5m2, u8)
LS_INT(i32, u32) LS_INT(i64, u64) LS_INT(u8, u8) LS_INT(u16, u16) LS_INT(u32, u32) LS_INT(u64, u64)
#define LS_SCALAR(N, T, S) LS_F T ls_get_##N(const void* p, i64 i) { return ls_from_##N(ls_raw<S, 1>::load(p, i).get(0)); } \
LS_F void ls_put_##N(void* p, i64 i, T x) { ls_raw<S, 1> r = ls_raw<S, 1>::zeros(); r.set(0, ls_into_##N(x)); r.store(p, i); }
LS_SCALAR(f32, float, 4) LS_SCALAR(f64, double, 8) LS_SCALAR(bf16, float, 2) LS_SCALAR(f16, float, 2) LS_SCALAR(bool, bool, 1)
LS_SCALAR(i32, i32, 4) LS_SCALAR(i64, i64, 8) LS_SCALAR(u8, u8, 1) LS_SCALAR(u16, u16, 2) LS_SCALAR(u32, u32, 4) LS_SCALAR(u64, u64, 8)
LS_SCALAR(f8_e4m3, f8_e4m3, 1) LS_SCALAR(f8_e5m2, f8_e5m2, 1)
)";

// Rounds to nearest even. Float to integer rounds towards zero and saturates; NaN becomes 0. Integer to
// integer wraps.
constexpr std::string_view kConvert = R"(
LS_F float ls_round_bf16(float x) { return __uint_as_float(ls_pack_bf16(0.0f, x)); }  // the upper half; by pairs it is rounded at 4 times the rate
LS_F float ls_round_f16(float x) { return ls_from_f16(ls_into_f16(x)); }
template <class X> LS_F float ls_to_f32(X x) { return (float)x; }
template <class X> LS_F double ls_to_f64(X x) { return (double)x; }
template <class X> LS_F float ls_to_bf16(X x) { return ls_round_bf16((float)x); }
template <class X> LS_F float ls_to_f16(X x) { return ls_round_f16((float)x); }
template <class X> LS_F f8_e4m3 ls_to_f8_e4m3(X x) { return (u8)ls_pair_f8_e4m3((float)x, 0.0f); }
template <class X> LS_F f8_e5m2 ls_to_f8_e5m2(X x) { return (u8)ls_pair_f8_e5m2((float)x, 0.0f); }
template <class X> LS_F bool ls_to_bool(X x) { return x != (X)0; }
template <class T, class X> LS_F T ls_whole(X x, X lo, X hi, T least, T most) { return x != x ? (T)0 : x <= lo ? least : x >= hi ? most : (T)x; }
#define LS_TO_INT(T, lo, hi, least, most) LS_F T ls_to_##T(float x) { return ls_whole<T, float>(x, lo, hi, least, most); } \
LS_F T ls_to_##T(double x) { return ls_whole<T, double>(x, lo, hi, least, most); } \
template <class X> LS_F T ls_to_##T(X x) { return (T)x; }
LS_TO_INT(i32, -2147483648.0, 2147483648.0, (i32)0x80000000u, 0x7fffffff)
LS_TO_INT(i64, -9223372036854775808.0, 9223372036854775808.0, (i64)(1ul << 63), 0x7fffffffffffffffl)
LS_TO_INT(u8, 0.0, 256.0, (u8)0, (u8)0xff) LS_TO_INT(u16, 0.0, 65536.0, (u16)0, (u16)0xffff)
LS_TO_INT(u32, 0.0, 4294967296.0, 0u, 0xffffffffu) LS_TO_INT(u64, 0.0, 18446744073709551616.0, 0ul, ~0ul)
#define LS_BITS(N, T, U) LS_F U ls_bits_##N(T x) { return ls_into_##N(x); } LS_F T ls_from_bits_##N(U b) { return ls_from_##N(b); }
LS_BITS(f32, float, u32) LS_BITS(f64, double, u64) LS_BITS(bf16, float, u16) LS_BITS(f16, float, u16) LS_BITS(bool, bool, u8)
LS_BITS(i32, i32, u32) LS_BITS(i64, i64, u64) LS_BITS(u8, u8, u8) LS_BITS(u16, u16, u16) LS_BITS(u32, u32, u32) LS_BITS(u64, u64, u64)
)";

// Integers wrap, and have no infinity: a division by zero gives 0, and the remainder is 0, too. A NaN wins in
// maximum and minimum. A shift by the width of the type or more leaves only the sign.
constexpr std::string_view kArithmetic = R"(
template <class I> LS_F I ls_guard(I i, i64 lo, i64 hi) { return i >= (I)lo && i < (I)hi ? i - (I)lo : 0; }
LS_F i32 ls_clamp_rows(i32 x, i64 n) { return x < 0 ? 0 : x >= n ? (i32)(n - 1) : x; }
template <class T> LS_F T ls_where(bool m, T a, T b) { return m ? a : b; }
template <class T> LS_F bool ls_eq(T a, T b) { return a == b; } template <class T> LS_F bool ls_ne(T a, T b) { return a != b; }
template <class T> LS_F bool ls_lt(T a, T b) { return a < b; } template <class T> LS_F bool ls_le(T a, T b) { return a <= b; }
template <class T> LS_F T ls_add(T a, T b) { return (T)((u64)a + (u64)b); } LS_F float ls_add(float a, float b) { return a + b; } LS_F double ls_add(double a, double b) { return a + b; }
template <class T> LS_F T ls_sub(T a, T b) { return (T)((u64)a - (u64)b); }
template <class T> LS_F T ls_mul(T a, T b) { return (T)((u64)a * (u64)b); } LS_F float ls_mul(float a, float b) { return a * b; } LS_F double ls_mul(double a, double b) { return a * b; }
template <class T> LS_F T ls_neg(T a) { return (T)(0 - (u64)a); }
LS_F float ls_abs(float x) { return fabsf(x); } LS_F double ls_abs(double x) { return fabs(x); } template <class T> LS_F T ls_abs(T x) { return x < (T)0 ? ls_neg(x) : x; }
template <class T> LS_F T ls_sign(T x) { return x > (T)0 ? (T)1 : x < (T)0 ? (T)-1 : x != x ? x : (T)0; }
LS_F float ls_maximum(float a, float b) { float r; asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r; }
LS_F float ls_minimum(float a, float b) { float r; asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r; }
template <class T> LS_F T ls_maximum(T a, T b) { return a < b || b != b ? b : a; }
template <class T> LS_F T ls_minimum(T a, T b) { return b < a || b != b ? b : a; }
LS_F float ls_clamp(float x, double lo, double hi) { return ls_minimum(ls_maximum(x, (float)lo), (float)hi); }
LS_F double ls_clamp(double x, double lo, double hi) { return ls_minimum(ls_maximum(x, lo), hi); }
template <class T> LS_F T ls_clamp(T x, T lo, T hi) { return x < lo ? lo : x > hi ? hi : x; }
template <class T> LS_F T ls_div(T a, T b) { return b == 0 ? (T)0 : (T)-1 < (T)0 && b == (T)-1 ? ls_neg(a) : (T)(a / b); }
template <class T> LS_F T ls_remainder(T a, T b) { if (b == 0 || ((T)-1 < (T)0 && b == (T)-1)) return 0; const T m = (T)(a % b); return m != 0 && (m < 0) != (b < 0) ? (T)(m + b) : m; }
LS_F float ls_remainder(float a, float b) { const float m = fmodf(a, b); return m != 0 && (m < 0) != (b < 0) ? m + b : m; }
LS_F double ls_remainder(double a, double b) { const double m = fmod(a, b); return m != 0 && (m < 0) != (b < 0) ? m + b : m; }
template <class T> LS_F T ls_shl(T a, T b) { return (u64)b >= sizeof(T) * 8 ? (T)0 : (T)((u64)a << b); }
template <class T> LS_F T ls_shr(T a, T b) { return (u64)b >= sizeof(T) * 8 ? ((T)-1 > (T)0 ? (T)0 : (T)(a >> (sizeof(T) * 8 - 1))) : (T)(a >> b); }
template <class T> LS_F T ls_not(T x) { return (T)~x; } LS_F bool ls_not(bool x) { return !x; }
#define LS_BOTH(name, f, d) LS_F float ls_##name(float x) { return f; } LS_F double ls_##name(double x) { return d; }
LS_BOTH(floor, floorf(x), floor(x)) LS_BOTH(ceil, ceilf(x), ceil(x)) LS_BOTH(round, rintf(x), rint(x)) LS_BOTH(trunc, truncf(x), trunc(x))
// By a constant c of which r is the reciprocal: a step of Newton behind x r, to a unit in the last place; x r where there is no number.
LS_F float ls_div_by(float x, float c, float r) { const float q = x * r, y = fmaf(fmaf(-q, c, x), r, q); return y == y ? y : q; }
LS_F float ls_rsqrt(float x) {
  float r;
  asm("rsqrt.approx.f32 %0, %1;" : "=f"(r) : "f"(x));
  const float y = fmaf(fmaf(-x * r, r, 1.0f), 0.5f * r, r);
  return y == y ? y : r;
}
LS_F double ls_rsqrt(double x) { return 1.0 / sqrt(x); }
LS_BOTH(sqrt, sqrtf(x), sqrt(x)) LS_BOTH(reciprocal, 1.0f / x, 1.0 / x)
LS_BOTH(exp, expf(x), exp(x)) LS_BOTH(expm1, expm1f(x), expm1(x)) LS_BOTH(log, logf(x), log(x)) LS_BOTH(log1p, log1pf(x), log1p(x))
LS_BOTH(sin, sinf(x), sin(x)) LS_BOTH(cos, cosf(x), cos(x)) LS_BOTH(erf, erff(x), erf(x)) LS_BOTH(atan, atanf(x), atan(x))
// tanhf's own formula, to about 2 units in the last place, without its test for large |x|, which 1 - 2 / (e^(2|x|) + 1) rounds to 1 by itself.
LS_F float ls_tanh(float x) {
  const float a = fabsf(x), s = x * x;
  float e, r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(a * __uint_as_float(0x4038aa3bu)));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(e + 1.0f));
  float p = fmaf(__uint_as_float(0x3c80f082u), s, __uint_as_float(0xbd563caeu));
  p = fmaf(fmaf(p, s, __uint_as_float(0x3e085941u)), s, __uint_as_float(0xbeaaa9edu));
  return copysignf(a >= 0.6f ? fmaf(r, -2.0f, 1.0f) : fmaf(p * s, a, a), x);
}
LS_F double ls_tanh(double x) { return tanh(x); }
// 1 / (1 + 2^(-x log2 e)): off by at most 1e-7, and by (3 + |x|) units in the last place where it is small.
LS_F float ls_sigmoid(float x) {
  float e, r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(x * -1.44269504f));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(e + 1.0f));
  return r;
}
LS_F double ls_sigmoid(double x) { const double e = exp(-fabs(x)); return (x >= 0.0 ? 1.0 : e) / (1.0 + e); }
LS_F float ls_pow(float x, float y) { return (float)pow((double)x, (double)y); } LS_F double ls_pow(double x, double y) { return pow(x, y); }
LS_F float ls_fma(float a, float b, float c) { return fmaf(a, b, c); } LS_F double ls_fma(double a, double b, double c) { return fma(a, b, c); }
)";

// Trees over the elements of a chunk and over lanes. The lane with the lower number is the first operand.
constexpr std::string_view kTrees = R"(
struct ls_sum { template <class T> __device__ __forceinline__ T operator()(T a, T b) const { return ls_add(a, b); } };
struct ls_prod { template <class T> __device__ __forceinline__ T operator()(T a, T b) const { return ls_mul(a, b); } };
struct ls_max { template <class T> __device__ __forceinline__ T operator()(T a, T b) const { return ls_maximum(a, b); } };
struct ls_min { template <class T> __device__ __forceinline__ T operator()(T a, T b) const { return ls_minimum(a, b); } };
struct ls_any { __device__ __forceinline__ bool operator()(bool a, bool b) const { return a || b; } };
struct ls_all { __device__ __forceinline__ bool operator()(bool a, bool b) const { return a && b; } };
template <class T> LS_F T ls_shuffle(T x, int m) {
  if constexpr (sizeof(T) == 8) { long long b; memcpy(&b, &x, 8); b = __shfl_xor_sync(0xffffffffu, b, m); memcpy(&x, &b, 8); return x; }
  else if constexpr (sizeof(T) == 4) return __shfl_xor_sync(0xffffffffu, x, m);
  else return (T)__shfl_xor_sync(0xffffffffu, (int)x, m);
}
template <int N, class T, class F> LS_F T ls_fold(T (&s)[N], F f) {
  _Pragma("unroll") for (int h = N / 2; h > 0; h /= 2) { _Pragma("unroll") for (int i = 0; i < h; ++i) s[i] = f(s[i], s[i + h]); }
  return s[0];
}
template <int L, class T, class F> LS_F T ls_lanes(T v, F f) {
  const int lane = threadIdx.x % 32;
  _Pragma("unroll") for (int m = L / 2; m > 0; m /= 2) { const T o = ls_shuffle(v, m); v = (lane & m) ? f(o, v) : f(v, o); }
  return v;
}
// The first position of the best element; a NaN is better than any number. No position yet: -1.
template <class T> LS_F bool ls_better(T x, T best, bool largest) { return best == best && (x != x || (largest ? x > best : x < best)); }
template <class T> LS_F void ls_best(T& best, i32& at, T x, i32 place, bool largest) { if (at < 0 || ls_better(x, best, largest)) best = x, at = place; }
template <class T> LS_F void ls_best_of(T& best, i32& at, T x, i32 place, bool largest) {
  if (place < 0) return;
  const bool better = at < 0 || ls_better(x, best, largest), same = !better && !ls_better(best, x, largest);
  if (better || (same && place < at)) best = x, at = place;
}
template <int L, class T> LS_F void ls_best_lanes(T& best, i32& at, bool largest) {
  _Pragma("unroll") for (int m = L / 2; m > 0; m /= 2) { const T x = ls_shuffle(best, m); const i32 place = ls_shuffle(at, m); ls_best_of(best, at, x, place, largest); }
}
)";

// core/base/philox.h: key = (seed, stream), counter = (index / 4, step), word = index % 4.
constexpr std::string_view kRandom = R"(
LS_F uint4 ls_block(i64 seed, i64 stream, i64 step, u64 quad) {
  const u64 key = (u64)seed * 0x9E3779B97F4A7C15ul ^ (u64)stream;
  u32 k0 = (u32)key, k1 = (u32)(key >> 32), c0 = (u32)quad, c1 = (u32)(quad >> 32), c2 = (u32)step, c3 = (u32)((u64)step >> 32);
  _Pragma("unroll") for (int round = 0; round < 10; ++round) {
    const u32 h0 = __umulhi(c0, 0xD2511F53u), l0 = c0 * 0xD2511F53u, h1 = __umulhi(c2, 0xCD9E8D57u), l1 = c2 * 0xCD9E8D57u;
    c0 = h1 ^ c1 ^ k0; c1 = l1; c2 = h0 ^ c3 ^ k1; c3 = l0;
    k0 += 0x9E3779B9u; k1 += 0xBB67AE85u;
  }
  return make_uint4(c0, c1, c2, c3);
}
LS_F u32 ls_random(i64 seed, i64 stream, i64 step, u64 index) {
  const uint4 b = ls_block(seed, stream, step, index >> 2);
  const u32 low = (index & 1) ? b.y : b.x, high = (index & 1) ? b.w : b.z;
  return (index & 2) ? high : low;
}
// Elements index ... index + N - 1. Where they start at a multiple of four, each block is computed once for its four words.
template <int N> LS_F void ls_random_run(u32 (&out)[N], i64 seed, i64 stream, i64 step, u64 index) {
  if constexpr (N >= 4) {
    if ((index & 3) == 0) {
      LS_EACH(N / 4) { const uint4 b = ls_block(seed, stream, step, (index >> 2) + j); out[4 * j] = b.x; out[4 * j + 1] = b.y; out[4 * j + 2] = b.z; out[4 * j + 3] = b.w; }
      return;
    }
  }
  LS_EACH(N) out[j] = ls_random(seed, stream, step, index + j);
}
LS_F float ls_uniform(u32 bits) { return (float)(bits >> 8) * 5.9604644775390625e-8f; }
)";

}  // namespace

std::string kernel_prelude() {
  std::string out;
  for (std::string_view part : {kTypes, kMemory, kConvert, kArithmetic, kTrees, kRandom}) out += part;
  return out;
}

}  // namespace lockstep::compiler::cuda
