// The prelude's types, memory access, arithmetic and conversions. Everything works on vectors of LS_W lanes.
// All loops process sixteen lanes at a time, in one or more vectors. So lane i of a sum has the same elements
// on every instruction set.
#include "compiler/codegen/cpu/prelude.h"

#include <vector>

#include "core/base/error.h"

namespace lockstep::compiler::cpu {

namespace {

constexpr std::string_view kTypes = R"(
typedef signed char i8; typedef unsigned char u8; typedef short i16; typedef unsigned short u16;
typedef int i32; typedef unsigned u32; typedef long i64; typedef unsigned long u64;
#if defined(__AVX512F__)
#define LS_W 16
#elif defined(__AVX2__)
#define LS_W 8
#else
#define LS_W 4
#endif
#define LS_K (16 / LS_W)
#define LS_F static inline __attribute__((always_inline))
#define LS_V(bytes) __attribute__((vector_size((bytes) * LS_W)))
typedef float vf LS_V(4); typedef double vd LS_V(8);
typedef i32 vi LS_V(4); typedef i64 vl LS_V(8); typedef u32 vu LS_V(4); typedef u64 vul LS_V(8);
typedef u8 vub LS_V(1); typedef u16 vuh LS_V(2); typedef i8 vb LS_V(1); typedef i16 vh LS_V(2);
#if LS_W == 16
#define LS_LANE (vi{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15})
#elif LS_W == 8
#define LS_LANE (vi{0, 1, 2, 3, 4, 5, 6, 7})
#else
#define LS_LANE (vi{0, 1, 2, 3})
#endif
#define LS_EACH(v) for (int l = 0; l < LS_W; ++l) (v)
#define LS_ALL(M) M(vf, vi) M(vd, vl) M(vi, vi) M(vl, vl) M(vu, vi) M(vul, vl) M(vub, vb) M(vuh, vh)
#define LS_INTS(M) M(vi, vi, i32) M(vl, vl, i64) M(vu, vi, u32) M(vul, vl, u64) M(vub, vb, u8) M(vuh, vh, u16)
#define LS_CAST(v, type) __builtin_convertvector(v, type)
)";

// Memory: elements i, i + 1, ... of a dense buffer. _n: only the first n lanes exist; the others read as 0
// and are not written.
constexpr std::string_view kMemory = R"(
#define LS_MEMORY(N, V, T) \
LS_F V ls_load_##N(const void* p, i64 i) { V v; __builtin_memcpy(&v, (const T*)p + i, sizeof v); return v; } \
LS_F V ls_load_n_##N(const void* p, i64 i, i64 n) { V v = {}; __builtin_memcpy(&v, (const T*)p + i, (u64)n * sizeof(T)); return v; } \
LS_F void ls_store_##N(void* p, i64 i, V v) { __builtin_memcpy((T*)p + i, &v, sizeof v); } \
LS_F void ls_store_n_##N(void* p, i64 i, V v, i64 n) { __builtin_memcpy((T*)p + i, &v, (u64)n * sizeof(T)); } \
LS_F T ls_get_##N(const void* p, i64 i) { return ((const T*)p)[i]; } \
LS_F void ls_put_##N(void* p, i64 i, T x) { ((T*)p)[i] = x; } \
LS_F V ls_full_##N(T x) { V v; LS_EACH(v)[l] = x; return v; }
)";
// Types whose register form R differs from their memory form H; two functions unpack and pack them.
constexpr std::string_view kPacked = R"(
#define LS_PACKED(N, V, T, H, VH, unpack, pack) \
LS_F V ls_load_##N(const void* p, i64 i) { VH v; __builtin_memcpy(&v, (const H*)p + i, sizeof v); return unpack(v); } \
LS_F V ls_load_n_##N(const void* p, i64 i, i64 n) { VH v = {}; __builtin_memcpy(&v, (const H*)p + i, (u64)n * sizeof(H)); return unpack(v); } \
LS_F void ls_store_##N(void* p, i64 i, V x) { VH v = pack(x); __builtin_memcpy((H*)p + i, &v, sizeof v); } \
LS_F void ls_store_n_##N(void* p, i64 i, V x, i64 n) { VH v = pack(x); __builtin_memcpy((H*)p + i, &v, (u64)n * sizeof(H)); } \
LS_F T ls_get_##N(const void* p, i64 i) { VH v = {}; v[0] = ((const H*)p)[i]; return unpack(v)[0]; } \
LS_F void ls_put_##N(void* p, i64 i, T x) { V v = {}; v[0] = x; ((H*)p)[i] = pack(v)[0]; } \
LS_F V ls_full_##N(T x) { V v; LS_EACH(v)[l] = x; return v; }
)";

constexpr std::string_view kBf16 = R"(
LS_F vf ls_unpack_bf16(vuh h) { return (vf)(LS_CAST(h, vu) << 16); }
LS_F vu ls_bits_of_bf16(vf x) { vu u = (vu)x; vu r = (u + 0x7fff + ((u >> 16) & 1)) >> 16; return (u & 0x7fffffff) > 0x7f800000 ? ((u >> 16) | 0x40) : r; }
LS_F vuh ls_pack_bf16(vf x) { return LS_CAST(ls_bits_of_bf16(x), vuh); }
LS_F vf ls_round_bf16(vf x) { return (vf)(ls_bits_of_bf16(x) << 16); }
LS_PACKED(bf16, vf, float, u16, vuh, ls_unpack_bf16, ls_pack_bf16)
)";
constexpr std::string_view kF16 = R"(
LS_F vf ls_unpack_f16(vuh h) {
  vu b = LS_CAST(h, vu), sign = (b & 0x8000) << 16, e = (b >> 10) & 31, m = b & 0x3ff;
  vu small = (vu)(LS_CAST((vi)m, vf) * 0x1p-24f), large = ((e + 112) << 23) | (m << 13), special = 0x7f800000 | (m << 13);
  return (vf)(sign | (e == 0 ? small : (e == 31 ? special : large)));
}
LS_F vuh ls_pack_f16(vf x) {
  vu u = (vu)x, sign = (u >> 16) & 0x8000, a = u & 0x7fffffff;
  vu tiny = (vu)((vf)a * 0x1p24f + 0x1p23f) - 0x4b000000, normal = (a + 0xfff + ((a >> 13) & 1) - 0x38000000) >> 13;
  vu r = a < 0x38800000 ? tiny : normal;
  r = a >= 0x477ff000 ? (vu{} + 0x7c00) : r;
  return LS_CAST(sign | (a > 0x7f800000 ? (vu{} + 0x7e00) : r), vuh);
}
LS_F vf ls_round_f16(vf x) { return ls_unpack_f16(ls_pack_f16(x)); }
LS_PACKED(f16, vf, float, u16, vuh, ls_unpack_f16, ls_pack_f16)
)";
// In a register, a bool is a mask of 32-bit lanes.
constexpr std::string_view kBool = R"(
LS_F vi ls_unpack_bool(vub b) { return LS_CAST(b != 0, vi); }
LS_F vub ls_pack_bool(vi m) { return LS_CAST(m & 1, vub); }
LS_PACKED(bool, vi, i32, u8, vub, ls_unpack_bool, ls_pack_bool)
)";

// Rounds to nearest even; larger values become the largest number. Below the smallest normal number, adding
// 2^23 rounds.
constexpr std::string_view kToFloat8 = R"(
#define LS_TO_FLOAT8(N, digits, least, most, code) LS_F vub ls_code_##N(vf x) { \
  vu u = (vu)x, sign = (u >> 24) & 0x80, a = u & 0x7fffffff; \
  vu tiny = (vu)((vf)a * (float)(1 << ((digits) - (least))) + 0x1p23f) - 0x4b000000; \
  vu half = ((1u << (22 - (digits))) - 1) + ((a >> (23 - (digits))) & 1); \
  vu normal = ((a + half) >> (23 - (digits))) - ((u32)(126 + (least)) << (digits)); \
  vu r = a < ((u32)(127 + (least)) << 23) ? tiny : normal; \
  r = a >= most ? (vu{} + code) : r; \
  return LS_CAST(sign | (a > 0x7f800000 ? (vu{} + 0x7f) : r), vub); } \
template <class X> LS_F vub ls_to_##N(X x) { return ls_code_##N(ls_to_f32(x)); }
)";

constexpr std::string_view kWhere = R"(
#define LS_ONE(V, M) LS_F V ls_where(vi m, V a, V b) { return LS_CAST(m, M) ? a : b; }
LS_ALL(LS_ONE)
#undef LS_ONE
)";
constexpr std::string_view kFirst = "LS_F vi ls_first(i64 n) { return LS_LANE < (i32)n; }\n";
constexpr std::string_view kGuard = R"(
LS_F i64 ls_guard(i64 i, i64 lo, i64 hi) { return i >= lo && i < hi ? i - lo : 0; }
LS_F vi ls_within(i64 at, i64 step, i64 lo, i64 hi) { vi m; LS_EACH(m)[l] = -(at + step * l >= lo && at + step * l < hi); return m; }
)";
constexpr std::string_view kNumbers = R"(
LS_F vl ls_numbers(i64 at, i64 step) { vl v; LS_EACH(v)[l] = at + step * l; return v; }
LS_F vi ls_clamp_rows(vi x, i64 n) { x = x < 0 ? vi{} : x; return x >= (i32)n ? vi{} + (i32)(n - 1) : x; }
)";

#define LS_COMPARE(name, op)                                                      \
  {name, "#define LS_ONE(V, M) LS_F vi " name "(V a, V b) { return LS_CAST(a " op \
         " b, vi); }\nLS_ALL(LS_ONE)\n#undef LS_ONE\n"}
#define LS_LANES1(name, call)                                                      \
  {"ls_" name, "LS_F vf ls_" name "(vf x) { vf r; LS_EACH(r)[l] = __builtin_" call \
               "f(x[l]); return r; }\n"                                            \
               "LS_F vd ls_" name "(vd x) { vd r; LS_EACH(r)[l] = __builtin_" call "(x[l]); return r; }\n"}

constexpr std::string_view kAbs = R"(
LS_F vf ls_abs(vf x) { return (vf)((vi)x & 0x7fffffff); }
LS_F vd ls_abs(vd x) { return (vd)((vl)x & 0x7fffffffffffffffl); }
#define LS_ONE(V, M, T) LS_F V ls_abs(V x) { return x < 0 ? -x : x; }
LS_INTS(LS_ONE)
#undef LS_ONE
)";
constexpr std::string_view kSign = R"(
LS_F vf ls_sign(vf x) { vf r = x > 0 ? vf{} + 1.0f : (x < 0 ? vf{} - 1.0f : vf{}); return x != x ? x : r; }
LS_F vd ls_sign(vd x) { vd r = x > 0 ? vd{} + 1.0 : (x < 0 ? vd{} - 1.0 : vd{}); return x != x ? x : r; }
#define LS_ONE(V, M, T) LS_F V ls_sign(V x) { return (V)((x < 0) - (x > 0)); }
LS_INTS(LS_ONE)
#undef LS_ONE
)";
// A NaN wins: that of the first operand, else that of the second.
constexpr std::string_view kExtremes = R"(
#define LS_REAL(V) \
LS_F V ls_maximum(V a, V b) { return ((a < b) | (b != b)) ? b : a; } \
LS_F V ls_minimum(V a, V b) { return ((b < a) | (b != b)) ? b : a; }
LS_REAL(vf) LS_REAL(vd)
#define LS_ONE(V, M, T) LS_F V ls_maximum(V a, V b) { return a < b ? b : a; } LS_F V ls_minimum(V a, V b) { return b < a ? b : a; }
LS_INTS(LS_ONE)
#undef LS_ONE
)";
constexpr std::string_view kClamp = R"(
LS_F vf ls_clamp(vf x, double lo, double hi) { return ls_minimum(ls_maximum(x, vf{} + (float)lo), vf{} + (float)hi); }
LS_F vd ls_clamp(vd x, double lo, double hi) { return ls_minimum(ls_maximum(x, vd{} + lo), vd{} + hi); }
#define LS_ONE(V, M, T) LS_F V ls_clamp(V x, T lo, T hi) { return ls_minimum(ls_maximum(x, V{} + lo), V{} + hi); }
LS_INTS(LS_ONE)
#undef LS_ONE
)";
// Integers have no infinity: a division by zero gives 0, and the remainder is 0, too. The dividend passes
// through an empty asm, so that no compiler sees x / x: GCC 12 replaces it by the mask x != 0, which is -1.
constexpr std::string_view kDiv = R"(
#define LS_ONE(V, M, T) LS_F V ls_div(V a, V b) { __asm__("" : "+m"(a)); V r; for (int l = 0; l < LS_W; ++l) r[l] = b[l] == 0 ? (T)0 : (T)-1 < (T)0 && b[l] == (T)-1 ? (T)(0 - (u64)a[l]) : (T)(a[l] / b[l]); return r; }
LS_INTS(LS_ONE)
#undef LS_ONE
)";
constexpr std::string_view kRemainder = R"(
LS_F vf ls_remainder(vf a, vf b) { vf r; for (int l = 0; l < LS_W; ++l) { float m = __builtin_fmodf(a[l], b[l]); r[l] = m != 0 && (m < 0) != (b[l] < 0) ? m + b[l] : m; } return r; }
LS_F vd ls_remainder(vd a, vd b) { vd r; for (int l = 0; l < LS_W; ++l) { double m = __builtin_fmod(a[l], b[l]); r[l] = m != 0 && (m < 0) != (b[l] < 0) ? m + b[l] : m; } return r; }
#define LS_ONE(V, M, T) LS_F V ls_remainder(V a, V b) { V r; for (int l = 0; l < LS_W; ++l) { \
  if (b[l] == 0 || ((T)-1 < (T)0 && b[l] == (T)-1)) { r[l] = 0; continue; } \
  T m = (T)(a[l] % b[l]); r[l] = m != 0 && (m < 0) != (b[l] < 0) ? (T)(m + b[l]) : m; } return r; }
LS_INTS(LS_ONE)
#undef LS_ONE
)";
// A shift by the width of the type or more leaves only the sign.
constexpr std::string_view kShifts = R"(
#define LS_ONE(V, M, T) \
LS_F V ls_shl(V a, V b) { V r; for (int l = 0; l < LS_W; ++l) r[l] = (u64)b[l] >= sizeof(T) * 8 ? (T)0 : (T)((u64)a[l] << b[l]); return r; } \
LS_F V ls_shr(V a, V b) { V r; for (int l = 0; l < LS_W; ++l) r[l] = (T)(a[l] >> ((u64)b[l] >= sizeof(T) * 8 ? sizeof(T) * 8 - 1 : (u64)b[l])); \
  for (int l = 0; l < LS_W; ++l) if ((T)-1 > (T)0 && (u64)b[l] >= sizeof(T) * 8) r[l] = 0; return r; }
LS_INTS(LS_ONE)
#undef LS_ONE
)";
constexpr std::string_view kNot = R"(
#define LS_ONE(V, M, T) LS_F V ls_not(V x) { return ~x; }
LS_INTS(LS_ONE)
#undef LS_ONE
)";
constexpr std::string_view kConvert = R"(
#define LS_TO(N, V, T) LS_F V ls_to_##N(vf x) { return LS_CAST(x, V); } LS_F V ls_to_##N(vd x) { return LS_CAST(x, V); } \
LS_F V ls_to_##N(vi x) { return LS_CAST(x, V); } LS_F V ls_to_##N(vl x) { return LS_CAST(x, V); } LS_F V ls_to_##N(vu x) { return LS_CAST(x, V); } \
LS_F V ls_to_##N(vul x) { return LS_CAST(x, V); } LS_F V ls_to_##N(vub x) { return LS_CAST(x, V); } LS_F V ls_to_##N(vuh x) { return LS_CAST(x, V); }
)";
// Float to integer: towards zero, saturating, NaN to 0. Integer to integer wraps.
constexpr std::string_view kConvertInts = R"(
template <class V, class T, class X> LS_F V ls_whole(X x, double lo, double hi, T least, T most) {
  V r;
  for (int l = 0; l < LS_W; ++l) { double d = (double)x[l]; r[l] = d != d ? (T)0 : d <= lo ? least : d >= hi ? most : (T)d; }
  return r;
}
#define LS_TO_INT(N, V, T, lo, hi, least, most) \
LS_F V ls_to_##N(vf x) { return ls_whole<V, T>(x, lo, hi, least, most); } LS_F V ls_to_##N(vd x) { return ls_whole<V, T>(x, lo, hi, least, most); } \
LS_F V ls_to_##N(vi x) { return LS_CAST(x, V); } LS_F V ls_to_##N(vl x) { return LS_CAST(x, V); } LS_F V ls_to_##N(vu x) { return LS_CAST(x, V); } \
LS_F V ls_to_##N(vul x) { return LS_CAST(x, V); } LS_F V ls_to_##N(vub x) { return LS_CAST(x, V); } LS_F V ls_to_##N(vuh x) { return LS_CAST(x, V); }
)";
constexpr std::string_view kToBool = R"(
#define LS_ONE(V, M) LS_F vi ls_to_bool(V x) { return LS_CAST(x != 0, vi); }
LS_ALL(LS_ONE)
#undef LS_ONE
)";
constexpr std::string_view kBits = R"(
LS_F vu ls_bits_f32(vf x) { return (vu)x; } LS_F vu ls_bits_i32(vi x) { return (vu)x; } LS_F vu ls_bits_u32(vu x) { return x; }
LS_F vul ls_bits_f64(vd x) { return (vul)x; } LS_F vul ls_bits_i64(vl x) { return (vul)x; } LS_F vul ls_bits_u64(vul x) { return x; }
LS_F vuh ls_bits_u16(vuh x) { return x; } LS_F vub ls_bits_u8(vub x) { return x; } LS_F vub ls_bits_bool(vi x) { return LS_CAST(x & 1, vub); }
LS_F vf ls_from_bits_f32(vu x) { return (vf)x; } LS_F vi ls_from_bits_i32(vu x) { return (vi)x; } LS_F vu ls_from_bits_u32(vu x) { return x; }
LS_F vd ls_from_bits_f64(vul x) { return (vd)x; } LS_F vl ls_from_bits_i64(vul x) { return (vl)x; } LS_F vul ls_from_bits_u64(vul x) { return x; }
LS_F vuh ls_from_bits_u16(vuh x) { return x; } LS_F vub ls_from_bits_u8(vub x) { return x; } LS_F vi ls_from_bits_bool(vub x) { return LS_CAST(x != 0, vi); }
)";
// The tree over sixteen lanes: lane i with lane i + 8, then i + 4, i + 2, i + 1. Every lane gets the result.
constexpr std::string_view kTree = R"(
template <int H, class V, class M, class F> LS_F V ls_halve(V v, M lane, F f) {
  if constexpr (H == 0) { return __builtin_shuffle(v, M{}); }
  else { v = f(v, __builtin_shuffle(v, lane ^ H)); return ls_halve<H / 2>(v, lane, f); }
}
template <class M, class V, class F> LS_F V ls_tree(V* s, F f) {
  for (int h = LS_K / 2; h > 0; h /= 2) for (int i = 0; i < h; ++i) s[i] = f(s[i], s[i + h]);
  return ls_halve<LS_W / 2>(s[0], LS_CAST(LS_LANE, M), f);
}
)";
// The first position of the best element; a NaN beats any number. -1: no position yet.
constexpr std::string_view kBest = R"(
template <class V> LS_F vi ls_better(V x, V best, int largest) { return LS_CAST((x != x) & (best == best), vi) | LS_CAST((largest ? x > best : x < best) & (best == best), vi); }
template <class V> LS_F void ls_best(V& best, vi& at, V x, vi place, vi valid, int largest) {
  vi m = ((at < 0) | ls_better(x, best, largest)) & valid;
  best = ls_where(m, x, best);
  at = m ? place : at;
}
template <class V> LS_F vi ls_best_of(V* best, vi* at, int largest) {
  V b = best[0]; vi w = at[0];
  for (int h = 0; h < LS_K; ++h) for (int l = 0; l < LS_W; ++l) {
    if (at[h][l] < 0) continue;
    V x = V{} + best[h][l];
    bool better = w[0] < 0 || ls_better(x, b, largest)[0], same = !better && !ls_better(b, x, largest)[0];
    if (better || (same && at[h][l] < w[0])) { b = x; w = vi{} + at[h][l]; }
  }
  return vi{} + w[0];
}
)";

#define LS_MEMORY_PART(N, V, T) {"ls_memory_" N, "LS_MEMORY(" N ", " V ", " T ")\n"}
constexpr PreludePart kParts[] = {
    {"LS_MEMORY", kMemory},
    {"LS_PACKED", kPacked},
    LS_MEMORY_PART("f32", "vf", "float"),
    LS_MEMORY_PART("f64", "vd", "double"),
    LS_MEMORY_PART("i32", "vi", "i32"),
    LS_MEMORY_PART("i64", "vl", "i64"),
    LS_MEMORY_PART("u8", "vub", "u8"),
    LS_MEMORY_PART("u16", "vuh", "u16"),
    LS_MEMORY_PART("u32", "vu", "u32"),
    LS_MEMORY_PART("u64", "vul", "u64"),
    LS_MEMORY_PART("f8_e4m3", "vub", "u8"),
    LS_MEMORY_PART("f8_e5m2", "vub", "u8"),
    {"ls_memory_bf16", kBf16},
    {"ls_memory_f16", kF16},
    {"ls_memory_bool", kBool},
    {"ls_where", kWhere},
    {"ls_first", kFirst},
    {"ls_guard", kGuard},
    {"ls_numbers", kNumbers},
    LS_COMPARE("ls_eq", "=="),
    LS_COMPARE("ls_ne", "!="),
    LS_COMPARE("ls_lt", "<"),
    LS_COMPARE("ls_le", "<="),
    {"ls_abs", kAbs},
    {"ls_sign", kSign},
    LS_LANES1("floor", "floor"),
    LS_LANES1("ceil", "ceil"),
    LS_LANES1("round", "rint"),
    LS_LANES1("trunc", "trunc"),
    {"ls_sqrt",
     "LS_F vf ls_sqrt(vf x) { vf r; LS_EACH(r)[l] = __builtin_sqrtf(x[l]); return r; }\nLS_F vd ls_sqrt(vd "
     "x) { vd r; LS_EACH(r)[l] = "
     "__builtin_sqrt(x[l]); return r; }\n"},
    {"ls_rsqrt",
     "LS_F vf ls_rsqrt(vf x) { return 1.0f / ls_sqrt(x); }\nLS_F vd ls_rsqrt(vd x) { return 1.0 / "
     "ls_sqrt(x); }\n"},
    {"ls_reciprocal",
     "LS_F vf ls_reciprocal(vf x) { return 1.0f / x; }\nLS_F vd ls_reciprocal(vd x) { return 1.0 / x; }\n"},
    {"ls_maximum", kExtremes},
    {"ls_clamp", kClamp},
    {"ls_div", kDiv},
    {"ls_remainder", kRemainder},
    {"ls_shl", kShifts},
    {"ls_not", kNot},
    {"ls_fma",
     "LS_F vf ls_fma(vf a, vf b, vf c) { vf r; LS_EACH(r)[l] = __builtin_fmaf(a[l], b[l], c[l]); return r; "
     "}\n"
     "LS_F vd ls_fma(vd a, vd b, vd c) { vd r; LS_EACH(r)[l] = __builtin_fma(a[l], b[l], c[l]); return r; "
     "}\n"},
    {"LS_TO", kConvert},
    {"LS_TO_INT", kConvertInts},
    {"ls_to_f32", "LS_TO(f32, vf, float)\n"},
    {"ls_to_f64", "LS_TO(f64, vd, double)\n"},
    {"ls_to_bf16", "template <class X> LS_F vf ls_to_bf16(X x) { return ls_round_bf16(ls_to_f32(x)); }\n"},
    {"ls_to_f16", "template <class X> LS_F vf ls_to_f16(X x) { return ls_round_f16(ls_to_f32(x)); }\n"},
    {"ls_to_i32", "LS_TO_INT(i32, vi, i32, -0x1p31, 0x1p31, (i32)0x80000000, 0x7fffffff)\n"},
    {"ls_to_i64", "LS_TO_INT(i64, vl, i64, -0x1p63, 0x1p63, (i64)(1ul << 63), 0x7fffffffffffffffl)\n"},
    {"ls_to_u8", "LS_TO_INT(u8, vub, u8, 0.0, 0x1p8, (u8)0, (u8)0xff)\n"},
    {"ls_to_u16", "LS_TO_INT(u16, vuh, u16, 0.0, 0x1p16, (u16)0, (u16)0xffff)\n"},
    {"ls_to_u32", "LS_TO_INT(u32, vu, u32, 0.0, 0x1p32, 0u, 0xffffffffu)\n"},
    {"ls_to_u64", "LS_TO_INT(u64, vul, u64, 0.0, 0x1p64, 0ul, ~0ul)\n"},
    {"ls_to_bool", kToBool},
    {"LS_TO_FLOAT8", kToFloat8},
    {"ls_to_f8_e4m3", "LS_TO_FLOAT8(f8_e4m3, 3, -6, 0x43e00000, 0x7e)\n"},
    {"ls_to_f8_e5m2", "LS_TO_FLOAT8(f8_e5m2, 2, -14, 0x47600000, 0x7b)\n"},
    {"ls_bits", kBits},
    {"ls_bits_bf16",
     "LS_F vuh ls_bits_bf16(vf x) { return ls_pack_bf16(x); }\nLS_F vf ls_from_bits_bf16(vuh x) { return "
     "ls_unpack_bf16(x); }\n"},
    {"ls_bits_f16",
     "LS_F vuh ls_bits_f16(vf x) { return ls_pack_f16(x); }\nLS_F vf ls_from_bits_f16(vuh x) { return "
     "ls_unpack_f16(x); }\n"},
    {"ls_tree", kTree},
    {"ls_best", kBest},
};
}  // namespace

std::string_view prelude_types() { return kTypes; }

std::span<const PreludePart> prelude_parts() {
  static const std::vector<PreludePart> parts = [] {
    std::vector<PreludePart> out(std::begin(kParts), std::end(kParts));
    out.insert(out.end(), math_parts().begin(), math_parts().end());
    return out;
  }();
  return parts;
}

}  // namespace lockstep::compiler::cpu
