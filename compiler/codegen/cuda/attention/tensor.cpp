// Attention on tensor cores. Tiles of one side are in shared memory, where the next one is copied while one
// is multiplied; the other side is in registers. Sums are in f32, without atomics. A warp owns 16 or 32 rows.
// Every sum runs over tiles in ascending order, so its bits depend only on the shape. Online softmax and
// recomputed probabilities follow Dao et al., FlashAttention, 2022.
#include <algorithm>

#include "compiler/codegen/cuda/attention/attention.h"
#include "core/base/error.h"

namespace lockstep::compiler::cuda {

namespace {
const char* const kTensorForward = R"(
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) sdpa_forward(Args a) {
  SHARED(memory)
  constexpr int M = ROWS / 16, TILE = ROWS * WARPS;
  float* q = HELD ? memory : memory + 2 * STAGE;
  const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4, mine = threadIdx.x / 32 * ROWS;
  const long long tiles = (a.queries + TILE - 1) / TILE, task = blockIdx.x / tiles;
  const int q0 = (int)(tiles - 1 - blockIdx.x % tiles) * TILE;  // the longest rows of a causal mask begin first
  const long long h = task % a.heads, b = task / a.heads, kv = h / (a.heads / a.kv_heads);
  const Stored* ks = a.k + b * a.ks.batch + kv * a.ks.head;
  const Stored* vs = a.v + b * a.vs.batch + kv * a.vs.head;
  Left<M> left;
  fill<TILE>(q, a.q + b * a.qs.batch + h * a.qs.head, a.qs.token, q0, a.queries);
  arrive();
  left.hold(q + mine * PITCH);
  if (HELD) __syncthreads();
  const float scale = (float)a.scale * (BIAS ? 1 : LOG2E);
  float sum[M][KD][4], most[2 * M], total[2 * M], s[M][NT][4];  // most: times log2(e)
  clear(sum);
#pragma unroll
  for (int i = 0; i < 2 * M; ++i) most[i] = -INFTY, total[i] = 0;
  const int limit = last_key(a, b, q0, TILE), row0 = q0 + mine, begin = first_key(q0);
  auto bring = [&](int k0, float* to) {
    if (k0 >= limit) return;
    fill<N>(to, ks, a.ks.token, k0, a.keys);
    fill<N>(to + N * PITCH, vs, a.vs.token, k0, a.keys);
  };
  bring(begin, memory);
  float *now = memory, *next = memory + STAGE;
  for (int k0 = begin; k0 < limit; k0 += N) {
    arrive();
    bring(k0 + N, next);
    const float* k = now;
    now = next, next = (float*)k;
    if (CAUSAL && k0 > row0 + ROWS - 1) continue;
    products(s, left, k);
    const bool all = all_seen(a, row0, k0, N);
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
      for (int n = 0; n < NT; ++n)
#pragma unroll
        for (int j = 0; j < 4; ++j) s[m][n][j] *= scale;
    if (!all) {
#pragma unroll
      for (int m = 0; m < M; ++m)
#pragma unroll
        for (int n = 0; n < NT; ++n)
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            const int row = row0 + 16 * m + j / 2 * 8 + g, column = k0 + column_of(n, j);
            float x = s[m][n][j];
            if (BIAS && column < a.keys) x = biased(a, x, b, h, row, column) * LOG2E;
            s[m][n][j] = seen(a, b, h, row, column) ? x : -INFTY;
          }
    }
#pragma unroll
    for (int i = 0; i < 2 * M; ++i) {
      float best = most[i];
#pragma unroll
      for (int n = 0; n < NT; ++n) best = fmaxf(best, fmaxf(s[i / 2][n][i % 2 * 2], s[i / 2][n][i % 2 * 2 + 1]));
      best = quad_max(best);
      // A row that has seen nothing yet: exp(-inf) of everything.
      const float base = best == -INFTY ? 0.0f : best, shrink = power_of_2(most[i] - base);
      float part = 0;
#pragma unroll
      for (int n = 0; n < NT; ++n)
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          float& x = s[i / 2][n][i % 2 * 2 + j];
          x = power_of_2(x - base);
          // What the product reads is what the total has.
          if (PARTS == 1) x = __uint_as_float(__float_as_uint(x) & 0xffffe000u);
          part += x;
        }
      total[i] = total[i] * shrink + part;  // of this lane
      most[i] = best;
#pragma unroll
      for (int c = 0; c < KD; ++c) sum[i / 2][c][i % 2 * 2] *= shrink, sum[i / 2][c][i % 2 * 2 + 1] *= shrink;
    }
    add_rows(sum, s, k + N * PITCH);
  }
  float part[2 * M];
#pragma unroll
  for (int i = 0; i < 2 * M; ++i) {
    const int row = row0 + i / 2 * 16 + i % 2 * 8 + g;
    total[i] = quad_sum(total[i]);
    if (MASKED && total[i] == 0) most[i] = 0, total[i] = 1;  // it sees nothing: 0, and so is its log-sum-exp
    if (t == 0 && row < a.queries)
      a.lse[(b * a.heads + h) * a.queries + row] = (most[i] + log2f(total[i])) * LN2;
    part[i] = 1 / total[i];
  }
  Stored* out = a.out + b * a.os.batch + h * a.os.head;
#pragma unroll
  for (int m = 0; m < M; ++m) store_rows(out, a.os.token, sum[m], row0 + 16 * m, a.queries, part[2 * m], part[2 * m + 1]);
}
)";

const char* const kTensorBackward = R"(
// Of scores and dp of a tile: p = exp(score - lse), and the gradient of the score, p (dp - delta), 0 where a key is
// unseen. `at` gives row and column, log-sum-exp and delta of a lane's j-th number of s[n].
template <class At>
__device__ __forceinline__ static void gradients(const Args& a, float (&s)[NT][4], float (&dp)[NT][4], bool all,
                                                 long long b, long long h, At at) {
  const float scale = (float)a.scale * (BIAS ? 1 : LOG2E);
  if (all) {
#pragma unroll
    for (int n = 0; n < NT; ++n)
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const auto place = at(n, j);
        s[n][j] = power_of_2(s[n][j] * scale - place.lse);
        dp[n][j] = s[n][j] * (dp[n][j] - place.delta);
      }
    return;
  }
#pragma unroll
  for (int n = 0; n < NT; ++n)
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const auto place = at(n, j);
      float x = s[n][j] * scale;
      const bool on = place.row < a.queries && seen(a, b, h, place.row, place.column);
      if (BIAS && on) x = biased(a, x, b, h, place.row, place.column) * LOG2E;
      s[n][j] = power_of_2(on ? x - place.lse : -INFTY);
      dp[n][j] = on ? s[n][j] * (dp[n][j] - place.delta) : 0.0f;
    }
}
struct Place { int row, column; float lse, delta; };

// dk and dv of one tile of keys: query heads of the group in order, tiles of queries in order.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) sdpa_keys(Args a) {
  SHARED(memory)
  constexpr int TILE = 16 * WARPS;
  float *numbers = memory + 2 * STAGE, *k = HELD ? memory : numbers + 4 * N, *v = k + TILE * PITCH;
  const int g = threadIdx.x % 32 / 4, mine = threadIdx.x / 32 * 16;
  const long long tiles = (a.keys + TILE - 1) / TILE, task = blockIdx.x / tiles;
  const int k0 = (int)(blockIdx.x % tiles) * TILE;
  const long long kv = task % a.kv_heads, b = task / a.kv_heads, group = a.heads / a.kv_heads;
  Left<1> keys, values;
  fill<TILE>(k, a.k + b * a.ks.batch + kv * a.ks.head, a.ks.token, k0, a.keys);
  fill<TILE>(v, a.v + b * a.vs.batch + kv * a.vs.head, a.vs.token, k0, a.keys);
  arrive();
  keys.hold(k + mine * PITCH);
  values.hold(v + mine * PITCH);
  if (HELD) __syncthreads();
  float dk[1][KD][4], dv[1][KD][4], s[1][NT][4], dp[1][NT][4];
  clear(dk), clear(dv);
  // Rows that may see one of the tile's keys.
  int last = WINDOW && k0 + TILE - 1 + WINDOW < a.queries ? k0 + TILE - 1 + WINDOW : a.queries;
  if (LENGTHS && k0 >= a.lengths[b]) last = 0;
  const int begin = CAUSAL ? k0 : 0, count = last > begin ? (last - begin + N - 1) / N : 0;
  const int all_tiles = (int)group * count;
  auto bring = [&](int i, int stage) {
    if (i >= all_tiles) return;
    const long long h = kv * group + i / count, first = (b * a.heads + h) * a.queries;
    const int q0 = begin + i % count * N;
    float *to = memory + stage * STAGE, *lse = numbers + stage * 2 * N;
    fill<N>(to, a.q + b * a.qs.batch + h * a.qs.head, a.qs.token, q0, a.queries);
    fill<N>(to + N * PITCH, a.grad + b * a.gs.batch + h * a.gs.head, a.gs.token, q0, a.queries);
    for (int r = threadIdx.x; r < N; r += THREADS) {
      const bool there = q0 + r < a.queries;
      lse[r] = there ? a.lse[first + q0 + r] * LOG2E : 0.0f, lse[N + r] = there ? a.delta[first + q0 + r] : 0.0f;
    }
  };
  bring(0, 0);
  for (int i = 0; i < all_tiles; ++i) {
    arrive();
    bring(i + 1, (i + 1) % 2);
    const float *q = memory + i % 2 * STAGE, *lse = numbers + i % 2 * 2 * N;
    const int q0 = begin + i % count * N;
    if (CAUSAL && q0 + N - 1 < k0 + mine) continue;
    products(s, keys, q);
    products(dp, values, q + N * PITCH);
    const bool all = q0 + N <= a.queries && all_seen(a, q0, k0 + mine, 16);
    gradients(a, s[0], dp[0], all, b, kv * group + i / count, [&](int n, int j) {
      const int at = column_of(n, j);
      return Place{q0 + at, k0 + mine + j / 2 * 8 + g, lse[at], lse[N + at]};
    });
    add_rows(dv, s, q + N * PITCH);
    add_rows(dk, dp, q);
  }
  const float factor = (float)a.scale;
  store_rows(a.dk + b * a.dks.batch + kv * a.dks.head, a.dks.token, dk[0], k0 + mine, a.keys, factor, factor);
  store_rows(a.dv + b * a.dvs.batch + kv * a.dvs.head, a.dvs.token, dv[0], k0 + mine, a.keys, 1, 1);
}

// dq of one tile of queries, tiles of keys in order.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) sdpa_queries(Args a) {
  SHARED(memory)
  constexpr int TILE = 16 * WARPS;
  float *q = HELD ? memory : memory + 2 * STAGE, *grad = q + TILE * PITCH;
  const int g = threadIdx.x % 32 / 4, mine = threadIdx.x / 32 * 16;
  const long long tiles = (a.queries + TILE - 1) / TILE, task = blockIdx.x / tiles;
  const int q0 = (int)(tiles - 1 - blockIdx.x % tiles) * TILE, row0 = q0 + mine;
  const long long h = task % a.heads, b = task / a.heads, kv = h / (a.heads / a.kv_heads);
  const Stored* ks = a.k + b * a.ks.batch + kv * a.ks.head;
  const Stored* vs = a.v + b * a.vs.batch + kv * a.vs.head;
  Left<1> queries, grads;
  fill<TILE>(q, a.q + b * a.qs.batch + h * a.qs.head, a.qs.token, q0, a.queries);
  fill<TILE>(grad, a.grad + b * a.gs.batch + h * a.gs.head, a.gs.token, q0, a.queries);
  arrive();
  queries.hold(q + mine * PITCH);
  grads.hold(grad + mine * PITCH);
  if (HELD) __syncthreads();
  const long long first = (b * a.heads + h) * a.queries;
  float lse[2], delta[2], dq[1][KD][4], s[1][NT][4], dp[1][NT][4];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int row = row0 + 8 * i + g;
    lse[i] = row < a.queries ? a.lse[first + row] * LOG2E : 0.0f, delta[i] = row < a.queries ? a.delta[first + row] : 0.0f;
  }
  clear(dq);
  // The bias's gradient is stored everywhere.
  const int limit = DBIAS ? a.keys : last_key(a, b, q0, TILE), begin = DBIAS ? 0 : first_key(q0);
  auto bring = [&](int k0, float* to) {
    if (k0 >= limit) return;
    fill<N>(to, ks, a.ks.token, k0, a.keys);
    fill<N>(to + N * PITCH, vs, a.vs.token, k0, a.keys);
  };
  bring(begin, memory);
  float *now = memory, *next = memory + STAGE;
  for (int k0 = begin; k0 < limit; k0 += N) {
    arrive();
    bring(k0 + N, next);
    const float* k = now;
    now = next, next = (float*)k;
    if (CAUSAL && !DBIAS && k0 > row0 + 15) continue;
    products(s, queries, k);
    products(dp, grads, k + N * PITCH);
    const bool all = row0 + 16 <= a.queries && all_seen(a, row0, k0, N);
    auto at = [&](int n, int j) {
      return Place{row0 + j / 2 * 8 + g, k0 + column_of(n, j), lse[j / 2], delta[j / 2]};
    };
    gradients(a, s[0], dp[0], all, b, h, at);
    if (DBIAS) {
#pragma unroll
      for (int n = 0; n < NT; ++n)
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const Place place = at(n, j);
          if (place.row < a.queries && place.column < a.keys)
            a.dbias[(first + place.row) * a.keys + place.column] = dp[0][n][j];
        }
    }
    add_rows(dq, dp, k);
  }
  const float factor = (float)a.scale;
  store_rows(a.dq + b * a.dqs.batch + h * a.dqs.head, a.dqs.token, dq[0], row0, a.queries, factor, factor);
}
)";

constexpr int kWarps = 4, kManyWarps = 8;
bool held(const AttentionShape& s) { return s.size <= 64; }  // left operands stay in registers
int padded(const AttentionShape& s) { return static_cast<int>((s.size + 31) / 32 * 32); }
// How many TF32 numbers represent one number of the shape's dtype.
int parts_of(const AttentionShape& s, bool tf32) { return s.dtype == DType::f32 && !tf32 ? 2 : 1; }
// Rows of a tile that is read. With two parts, 64 would not fit in registers next to the operands kept there.
int tile_rows(const AttentionShape& s, int parts) { return held(s) && parts == 1 ? 64 : 32; }
// Two stages of two tiles that are read; next to them, or in their place, the left operands.
int shared_bytes(const AttentionShape& s, int parts, bool keys) {
  const int n = tile_rows(s, parts), pitch = padded(s) + 8, stages = 4 * n * pitch;
  const int rows = held(s) && !s.backward ? 32 : 16, warps = held(s) ? kWarps : kManyWarps;
  const int lefts = (s.backward ? 2 : 1) * warps * rows * pitch;
  return 4 * (held(s) ? std::max(stages + (keys ? 4 * n : 0), lefts) : stages + (keys ? 4 * n : 0) + lefts);
}
}  // namespace

std::string unfit_for_tensor_cores(const AttentionShape& s, int shared_per_block) {
  if (s.dtype == DType::f64) return "f64";
  if (s.size % 8 != 0 || s.size > 128) return str("head size ", s.size, " is no multiple of 8 up to 128");
  for (const HeadView& view : {s.q, s.k, s.v, s.o, s.grad, s.dq, s.dk, s.dv})
    if (view.batch % 4 || view.token % 4 || view.head % 4) return "strides are no multiples of 4";
  if (const int bytes = shared_bytes(s, 1, s.backward); bytes > shared_per_block)  // two parts take no more
    return str("its tiles take ", bytes, " bytes of shared memory, and a block has ", shared_per_block);
  return "";
}

AttentionKernels tensor_attention(const AttentionShape& s, bool tf32) {
  const int warps = held(s) ? kWarps : kManyWarps, threads = 32 * warps;
  const int parts = parts_of(s, tf32), n = tile_rows(s, parts), rows = held(s) && !s.backward ? 32 : 16,
            own = rows * warps;
  auto blocks = [](int64_t count, int64_t per_block) { return (count + per_block - 1) / per_block; };
  const int64_t queries = s.batch * s.heads * blocks(s.queries, own);
  AttentionKernels out;
  out.name = parts == 2 ? "tensor cores, f32 as two TF32" : "tensor cores";
  out.launches = {{"sdpa_forward", queries, shared_bytes(s, parts, false), threads}};
  if (s.backward)
    out.launches = {
        {"sdpa_delta", blocks(s.batch * s.heads * s.queries, 16), 0},
        {"sdpa_keys", s.batch * s.kv_heads * blocks(s.keys, own), shared_bytes(s, parts, true), threads},
        {"sdpa_queries", queries, shared_bytes(s, parts, false), threads}};
  check_launches(out.launches);
  out.source = str(attention_prelude(s), "#define D ", s.size, attention_delta_source(), "#define N ", n,
                   "\n#define DP ", padded(s), "\n#define PARTS ", parts, "\n#define HELD ", held(s) ? 1 : 0,
                   "\n#define ROWS ", rows, "\n#define WARPS ", warps, "\n#define THREADS ", threads,
                   "\n#define BLOCKS ", held(s) ? 2 : 1, "\n", tensor_tiles_source(),
                   s.backward ? kTensorBackward : kTensorForward);
  return out;
}

}  // namespace lockstep::compiler::cuda
