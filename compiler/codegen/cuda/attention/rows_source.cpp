// CUDA C++ of the kernels between the products of attention: softmax of rows of scores, and its gradient. A
// warp processes a row; lane l has the columns l, l + 32, ..., and sums are added in a tree over lanes, so
// bits depend only on the shape.
#include "compiler/codegen/cuda/attention/attention.h"

namespace lockstep::compiler::cuda {

namespace {
constexpr int64_t kKept = 32;  // the most columns of a lane that stay in registers

const char* const kAttentionRows = R"(
// A piece of the call: batches [batch, batch + batches), heads [head, ...), rows of all of them. Its scores are
// [heads, batches, queries, LD].
struct Piece { long long batch, batches, head, rows; };

#define EACH for (int n = 0, c = lane; n < STEPS; ++n, c += 32)
#define WARP(x, with) for (int w = 16; w > 0; w /= 2) { const Real other = __shfl_xor_sync(0xffffffffu, x, w); with; }

#define ROW(part) \
  const long long r = (long long)blockIdx.x * 8 + threadIdx.x / 32; \
  if (r >= part.rows) return; \
  const int lane = threadIdx.x % 32, row = (int)(r % a.queries); \
  const long long b = part.batch + r / a.queries % part.batches, h = part.head + r / a.queries / part.batches; \
  const long long at = (b * a.heads + h) * a.queries + row; \
  const Real scale = (Real)a.scale;

__device__ __forceinline__ static Real score(const Args& a, const Real* s, long long b, long long h, int row, int c,
                                             Real scale) {
  return seen(a, b, h, row, c) ? biased(a, s[c] * scale, b, h, row, c) : -INFTY;
}
)";

const char* const kWeights = R"(
// Rows of weights, softmax of the scores; of a row that sees nothing they are 0, and so is its log-sum-exp.
extern "C" __global__ void __launch_bounds__(256) sdpa_weights(Args a, Piece part, const Real* scores,
                                                               Stored* weights) {
  ROW(part)
  const Real* s = scores + r * LD;
  Stored* to = weights + r * LD;
#if KEPT
  Real x[STEPS];
  UNROLL EACH x[n] = score(a, s, b, h, row, c, scale);
#define X x[n]
#else
#define X score(a, s, b, h, row, c, scale)
#endif
  Real best = -INFTY, total = 0;
  UNROLL EACH { const Real y = X; best = y > best ? y : best; }
  WARP(best, best = other > best ? other : best)
  const Real base = best == -INFTY ? (Real)0 : best;
  UNROLL EACH {
    const Real e = EXP(X - base);
    total += e;
#if KEPT
    x[n] = e;
#endif
  }
  WARP(total, total += other)
  const bool none = total == 0;
  if (none) total = 1;
#if !KEPT
#undef X
#define X EXP(score(a, s, b, h, row, c, scale) - base)
#endif
  UNROLL EACH if (c < a.keys) to[c] = store(X / total);
  if (lane == 0) a.lse[at] = none ? (Real)0 : base + LOG(total);
}
)";

const char* const kGradients = R"(
// p = exp(score - lse), and of its gradient dp that of the scores: p (dp - sum of p dp) scale. Both are stored as
// the operands of products; the bias's gradient is that of the scores before the scale. They may lie where scores
// and dp lie.
extern "C" __global__ void __launch_bounds__(256) sdpa_score_gradients(Args a, Piece part, const Real* scores,
                                                                       const Real* dp, Stored* weights,
                                                                       Stored* dscores) {
  ROW(part)
  const Real *s = scores + r * LD, *d = dp + r * LD, lse = a.lse[at];
  Real delta = 0;
#if KEPT
  Real x[STEPS], y[STEPS];
  UNROLL EACH {
    x[n] = EXP(score(a, s, b, h, row, c, scale) - lse);
    y[n] = c < a.keys ? d[c] : (Real)0;
    delta += x[n] * y[n];
  }
#define P x[n]
#define DP y[n]
#else
#define P EXP(score(a, s, b, h, row, c, scale) - lse)
#define DP d[c]
  UNROLL EACH if (c < a.keys) delta += P * DP;
#endif
  WARP(delta, delta += other)
  UNROLL EACH if (c < a.keys) {
    const Real p = P, g = p * (DP - delta);
    weights[r * LD + c] = store(p);
    dscores[r * LD + c] = store(g * scale);
    if (DBIAS) a.dbias[at * a.keys + c] = g;
  }
}
)";
}  // namespace

std::string attention_rows_source(const AttentionShape& shape) {
  const int64_t ld = (shape.keys + 7) / 8 * 8, steps = (shape.keys + 31) / 32;
  return str(attention_prelude(shape), "#define LD ", ld, "\n#define STEPS ", steps, "\n#define KEPT ",
             steps <= kKept ? 1 : 0, "\n#define UNROLL _Pragma(\"unroll", steps <= kKept ? "" : " 4", "\")\n",
             kAttentionRows, shape.backward ? kGradients : kWeights);
}

}  // namespace lockstep::compiler::cuda
