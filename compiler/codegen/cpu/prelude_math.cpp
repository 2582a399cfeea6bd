// The prelude's functions: exp, log, tanh and others in f32 vectors, to 2-4 units in the last place over the
// whole range, including infinities, NaN, zeros and subnormals; and Philox. Steps that need a single rounding
// use ls_fma, which rounds once on every instruction set. f64 goes lane by lane through the C library.
#include "compiler/codegen/cpu/prelude.h"

namespace lockstep::compiler::cpu {

namespace {

// 2^n p for whole n in [-160, 160]: rounds once, also into subnormals.
constexpr std::string_view kScale = R"(
#if defined(__AVX512F__)
LS_F vf ls_scale(vf p, vf n) { return (vf)__builtin_ia32_scalefps512_mask(p, n, vf{}, -1, 4); }
#else
LS_F vf ls_scale(vf p, vf n) { vi k = LS_CAST(n, vi), a = k >> 1, b = k - a; return p * (vf)((a + 127) << 23) * (vf)((b + 127) << 23); }
#endif
)";

// x = n ln2 + r with |r| <= ln2 / 2, ln2 in two parts; exp(r) = 1 + r + r^2 q(r).
constexpr std::string_view kExp = R"(
LS_F vf ls_exp_q(vf r) {
  vf q = ls_fma(r, vf{} + 0.00139261771f, vf{} + 0.00836317427f);
  q = ls_fma(q, r, vf{} + 0.0416665561f);
  q = ls_fma(q, r, vf{} + 0.166665778f);
  return ls_fma(q, r, vf{} + 0.5f);
}
LS_F vf ls_exp(vf x) {
  x = x > 89.0f ? vf{} + 89.0f : x;
  x = x < -105.0f ? vf{} - 105.0f : x;
  vf n = ls_fma(x, vf{} + 1.44269504f, vf{} + 0x1.8p23f) - 0x1.8p23f;
  vf r = ls_fma(n, vf{} - 0.693145752f, x);
  r = ls_fma(n, vf{} - 1.42860677e-6f, r);
  vf p = ls_fma(r * r, ls_exp_q(r), r) + 1.0f;
  return ls_scale(p, n);
}
)";
// exp(x) - 1 = 2^n (exp(r) - 1) + (2^n - 1).
constexpr std::string_view kExpm1 = R"(
LS_F vf ls_expm1(vf x) {
  vf y = x > 89.0f ? vf{} + 89.0f : x;
  y = y < -30.0f ? vf{} - 30.0f : y;
  vf n = ls_fma(y, vf{} + 1.44269504f, vf{} + 0x1.8p23f) - 0x1.8p23f;
  vf r = ls_fma(n, vf{} - 0.693145752f, y);
  r = ls_fma(n, vf{} - 1.42860677e-6f, r);
  vf e = ls_fma(r * r, ls_exp_q(r), r);
  vf large = ls_scale(e + 1.0f, n);
  vf s = ls_scale(vf{} + 1.0f, n > 60.0f ? vf{} + 60.0f : n);
  vf small = ls_fma(s, e, s - 1.0f);
  small = n == 0.0f ? e : small;
  vf result = n > 40.0f ? large : small;
  return x == 0.0f ? x : result;
}
)";
// x = 2^e (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)]; log(1 + f) = f - f^2 / 2 + f^3 p(f).
constexpr std::string_view kLog = R"(
LS_F vf ls_log_of(vf f, vf e) {
  vf p = ls_fma(f, vf{} + 0.0697168112f, vf{} - 0.114798367f);
  p = ls_fma(p, f, vf{} + 0.116854429f);
  p = ls_fma(p, f, vf{} - 0.12425676f);
  p = ls_fma(p, f, vf{} + 0.142490536f);
  p = ls_fma(p, f, vf{} - 0.166678026f);
  p = ls_fma(p, f, vf{} + 0.200007156f);
  p = ls_fma(p, f, vf{} - 0.24999997f);
  p = ls_fma(p, f, vf{} + 0.333333313f);
  vf s = f * f, y = p * f * s;
  y = ls_fma(e, vf{} + 1.42860677e-6f, y);
  y = ls_fma(s, vf{} - 0.5f, y);
  return ls_fma(e, vf{} + 0.693145752f, f + y);
}
LS_F vf ls_log(vf x) {
  vi tiny = x < 0x1p-126f;
  vf y = tiny ? x * 0x1p23f : x;
  vi b = (vi)y - 0x3f3504f3, k = b >> 23;
  vf f = (vf)((b & 0x7fffff) + 0x3f3504f3) - 1.0f;
  vf e = LS_CAST(k, vf) - (tiny ? vf{} + 23.0f : vf{});
  vf r = ls_log_of(f, e);
  r = x == __builtin_inff() ? x : r;
  r = x == 0.0f ? vf{} - __builtin_inff() : r;
  return (x < 0.0f) | (x != x) ? vf{} + __builtin_nanf("") : r;
}
)";
// log(1 + x) = log(u) + (x - (u - 1)) / u with u = 1 + x rounded.
constexpr std::string_view kLog1p = R"(
LS_F vf ls_log1p(vf x) {
  vf u = 1.0f + x;
  vi b = (vi)u - 0x3f3504f3, k = b >> 23;
  vf f = (vf)((b & 0x7fffff) + 0x3f3504f3) - 1.0f;
  vf lost = x > 1.0f ? 1.0f - (u - x) : x - (u - 1.0f);
  vf near = k == 0 ? x : f;
  vf c = k == 0 ? vf{} : lost / u;
  vf r = ls_log_of(near, LS_CAST(k, vf) ) + c;
  r = x == 0.0f ? x : r;
  r = x == __builtin_inff() ? x : r;
  r = x == -1.0f ? vf{} - __builtin_inff() : r;
  return (x < -1.0f) | (x != x) ? vf{} + __builtin_nanf("") : r;
}
)";
// tanh|x| = t / (t + 2) with t = exp(2|x|) - 1.
constexpr std::string_view kTanh = R"(
LS_F vf ls_tanh(vf x) {
  vi sign = (vi)x & (vi{} + (i32)0x80000000);
  vf a = (vf)((vi)x & 0x7fffffff), y = a > 10.0f ? vf{} + 20.0f : a + a;
  vf n = ls_fma(y, vf{} + 1.44269504f, vf{} + 0x1.8p23f) - 0x1.8p23f;
  vf r = ls_fma(n, vf{} - 0.693145752f, y);
  r = ls_fma(n, vf{} - 1.42860677e-6f, r);
  vf e = ls_fma(r * r, ls_exp_q(r), r);
  vf s = ls_scale(vf{} + 1.0f, n), t = ls_fma(s, e, s - 1.0f);
  vf result = a < 0x1p-14f ? a : t / (t + 2.0f);
  return (vf)((vi)result | sign);
}
)";
constexpr std::string_view kSigmoid = R"(
LS_F vf ls_sigmoid(vf x) {
  vf e = ls_exp((vf)((vi)x | (vi{} + (i32)0x80000000)));
  return (x >= 0.0f ? vf{} + 1.0f : e) / (1.0f + e);
}
)";
// Near 0: x + x p(x^2). Else 1 - exp(-t q(t)) with t = |x|.
constexpr std::string_view kErf = R"(
LS_F vf ls_erf(vf x) {
  vi sign = (vi)x & (vi{} + (i32)0x80000000);
  vf a = (vf)((vi)x & 0x7fffffff), s = x * x;
  vf p = ls_fma(s, vf{} + 8.35189712e-05f, vf{} - 0.000813879247f);
  p = ls_fma(p, s, vf{} + 0.00520072971f);
  p = ls_fma(p, s, vf{} - 0.0268592965f);
  p = ls_fma(p, s, vf{} + 0.112836942f);
  p = ls_fma(p, s, vf{} - 0.376126349f);
  p = ls_fma(p, s, vf{} + 0.128379181f);
  vf small = ls_fma(x, p, x);
  vf t = a > 4.05f ? vf{} + 4.05f : a;
  vf q = ls_fma(t, vf{} - 1.08144729e-06f, vf{} + 3.49869733e-05f);
  q = ls_fma(q, t, vf{} - 0.000503025076f);
  q = ls_fma(q, t, vf{} + 0.00431959191f);
  q = ls_fma(q, t, vf{} - 0.0251738634f);
  q = ls_fma(q, t, vf{} + 0.107898511f);
  q = ls_fma(q, t, vf{} + 0.634119749f);
  q = ls_fma(q, t, vf{} + 0.12891054f);
  vf large = 1.0f - ls_exp(-ls_fma(q, t, t));
  large = (vf)((vi)large | sign);
  return (a < 0.925f) | (x != x) ? small : large;
}
)";
// In double: x = k pi/2 + r, with pi/2 in two parts and the Taylor series of r; beyond 2^30 lane by lane
// through the C library.
constexpr std::string_view kSin = R"(
LS_F vf ls_turn(vf x, i64 quarter) {
  vd d = LS_CAST(x, vd);
  vd k = (d * 0.63661977236758138 + 0x1.8p52) - 0x1.8p52;
  vd r = ls_fma(k, vd{} - 1.5707963267948966, d);
  r = ls_fma(k, vd{} - 6.123233995736766e-17, r);
  vl n = (vl)(k + 0x1.8p52) + quarter;
  vd s = r * r;
  vd a = ls_fma(s, vd{} - 1.0 / 39916800.0, vd{} + 1.0 / 362880.0);
  a = ls_fma(a, s, vd{} - 1.0 / 5040.0);
  a = ls_fma(a, s, vd{} + 1.0 / 120.0);
  a = ls_fma(a, s, vd{} - 1.0 / 6.0);
  vd sine = ls_fma(a * s, r, r);
  vd b = ls_fma(s, vd{} + 1.0 / 479001600.0, vd{} - 1.0 / 3628800.0);
  b = ls_fma(b, s, vd{} + 1.0 / 40320.0);
  b = ls_fma(b, s, vd{} - 1.0 / 720.0);
  b = ls_fma(b, s, vd{} + 1.0 / 24.0);
  b = ls_fma(b, s, vd{} - 0.5);
  vd cosine = ls_fma(b, s, vd{} + 1.0);
  vd y = (n & 1) != 0 ? cosine : sine;
  vf out = LS_CAST((n & 2) != 0 ? -y : y, vf);
  out = quarter == 0 ? (x == 0.0f ? x : out) : out;
  vi far = (vi)((vf)((vi)x & 0x7fffffff) < 0x1p30f) == 0;
  i64 any = 0;
  for (int l = 0; l < LS_W; ++l) any |= far[l];
  if (__builtin_expect(any != 0, 0))
    for (int l = 0; l < LS_W; ++l)
      if (far[l]) out[l] = (float)(quarter ? __builtin_cos((double)x[l]) : __builtin_sin((double)x[l]));
  return out;
}
LS_F vf ls_sin(vf x) { return ls_turn(x, 0); }
LS_F vd ls_sin(vd x) { vd r; LS_EACH(r)[l] = __builtin_sin(x[l]); return r; }
)";
constexpr std::string_view kCos = R"(
LS_F vf ls_cos(vf x) { return ls_turn(x, 1); }
LS_F vd ls_cos(vd x) { vd r; LS_EACH(r)[l] = __builtin_cos(x[l]); return r; }
)";
constexpr std::string_view kPow = R"(
LS_F vf ls_pow(vf x, vf y) { vf r; LS_EACH(r)[l] = (float)__builtin_pow((double)x[l], (double)y[l]); return r; }
LS_F vd ls_pow(vd x, vd y) { vd r; LS_EACH(r)[l] = __builtin_pow(x[l], y[l]); return r; }
)";
constexpr std::string_view kAtan = R"(
LS_F vf ls_atan(vf x) { vf r; LS_EACH(r)[l] = (float)__builtin_atan((double)x[l]); return r; }
LS_F vd ls_atan(vd x) { vd r; LS_EACH(r)[l] = __builtin_atan(x[l]); return r; }
)";
// core/base/philox.h, one element per lane: key = (seed, stream), counter = (index / 4, step), word = index
// % 4.
constexpr std::string_view kRandom = R"(
LS_F vu ls_random(i64 seed, i64 stream, i64 step, vul index) {
  u64 key = (u64)seed * 0x9E3779B97F4A7C15ul ^ (u64)stream;
  u32 k0 = (u32)key, k1 = (u32)(key >> 32);
  vul block = index >> 2;
  vu c0 = LS_CAST(block, vu), c1 = LS_CAST(block >> 32, vu), c2 = vu{} + (u32)step, c3 = vu{} + (u32)((u64)step >> 32);
  for (int round = 0; round < 10; ++round) {
    vul p0 = LS_CAST(c0, vul) * 0xD2511F53ul, p1 = LS_CAST(c2, vul) * 0xCD9E8D57ul;
    vu a = LS_CAST(p1 >> 32, vu) ^ c1 ^ k0, b = LS_CAST(p0 >> 32, vu) ^ c3 ^ k1;
    c1 = LS_CAST(p1, vu); c3 = LS_CAST(p0, vu); c0 = a; c2 = b;
    k0 += 0x9E3779B9u; k1 += 0xBB67AE85u;
  }
  vu word = LS_CAST(index & 3, vu);
  vu low = (word & 1) != 0 ? c1 : c0, high = (word & 1) != 0 ? c3 : c2;
  return (word & 2) != 0 ? high : low;
}
// Elements index ... index + LS_W - 1. Where they start at a multiple of four, each block is computed once for its four words; the upper
// halves of the 64-bit lanes may hold anything, as a product takes the lower halves.
#define LS_B (LS_W / 4)
typedef u64 ls_blocks __attribute__((vector_size(8 * LS_B)));
#if LS_W == 16
typedef int ls_halves __attribute__((vector_size(32)));
LS_F ls_blocks ls_product(ls_blocks a, u64 k) { return (ls_blocks)__builtin_ia32_pmuludq256((ls_halves)a, (ls_halves)(ls_blocks{} + k)); }
#else
LS_F ls_blocks ls_product(ls_blocks a, u64 k) { return (a & 0xffffffffu) * k; }
#endif
LS_F vu ls_random_run(i64 seed, i64 stream, i64 step, u64 index) {
  if (__builtin_expect((index & 3) != 0, 0)) { vul each; LS_EACH(each)[l] = index + (u64)l; return ls_random(seed, stream, step, each); }
  u64 key = (u64)seed * 0x9E3779B97F4A7C15ul ^ (u64)stream;
  u32 k0 = (u32)key, k1 = (u32)(key >> 32);
  ls_blocks block; for (int l = 0; l < LS_B; ++l) block[l] = (index >> 2) + (u64)l;
  ls_blocks c0 = block, c1 = block >> 32, c2 = ls_blocks{} + (u64)(u32)step, c3 = ls_blocks{} + ((u64)step >> 32);
  for (int round = 0; round < 10; ++round) {
    ls_blocks p0 = ls_product(c0, 0xD2511F53ul), p1 = ls_product(c2, 0xCD9E8D57ul);
    c0 = (p1 >> 32) ^ c1 ^ (u64)k0; c2 = (p0 >> 32) ^ c3 ^ (u64)k1;
    c1 = p1; c3 = p0;
    k0 += 0x9E3779B9u; k1 += 0xBB67AE85u;
  }
  vu out;
  ls_blocks low = (c0 & 0xffffffffu) | (c1 << 32), high = (c2 & 0xffffffffu) | (c3 << 32);
  u64 pairs[2 * LS_B];
  for (int l = 0; l < LS_B; ++l) { pairs[2 * l] = low[l]; pairs[2 * l + 1] = high[l]; }
  __builtin_memcpy(&out, pairs, sizeof out);
  return out;
}
LS_F vf ls_uniform(vu bits) { return LS_CAST((vi)(bits >> 8), vf) * 0x1p-24f; }
)";

#define LS_DOUBLE(name) \
  "LS_F vd ls_" name "(vd x) { vd r; LS_EACH(r)[l] = __builtin_" name "(x[l]); return r; }\n"

}  // namespace

std::span<const PreludePart> math_parts() {
  static const std::string exp = std::string(kExp) + LS_DOUBLE("exp"),
                           expm1 = std::string(kExpm1) + LS_DOUBLE("expm1"),
                           log = std::string(kLog) + LS_DOUBLE("log"),
                           log1p = std::string(kLog1p) + LS_DOUBLE("log1p"),
                           tanh = std::string(kTanh) + LS_DOUBLE("tanh"),
                           erf = std::string(kErf) + LS_DOUBLE("erf"),
                           sigmoid = std::string(kSigmoid) +
                                     "LS_F vd ls_sigmoid(vd x) { vd e = ls_exp((vd)((vl)x | (vl{} + "
                                     "(i64)(1ul << 63)))); return (x >= 0.0 "
                                     "? vd{} + 1.0 : e) / (1.0 + e); }\n";
  static const PreludePart parts[] = {
      {"ls_scale", kScale}, {"ls_exp", exp},   {"ls_expm1", expm1},     {"ls_log", log},
      {"ls_log1p", log1p},  {"ls_tanh", tanh}, {"ls_sigmoid", sigmoid}, {"ls_erf", erf},
      {"ls_sin", kSin},     {"ls_cos", kCos},  {"ls_pow", kPow},        {"ls_random", kRandom},
      {"ls_atan", kAtan},
  };
  return parts;
}

}  // namespace lockstep::compiler::cpu
