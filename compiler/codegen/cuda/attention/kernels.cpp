// CUDA C++ of our own attention kernels: tiles of queries and keys in shared memory, sums in registers, no
// atomics. 256 threads are 16 x 16: thread (y, x) owns rows y, y + 16, ... and columns x, x + 16, ... of a
// tile's products. Every sum runs over keys, queries and query heads in ascending order, so its bits depend
// only on the shape. Online softmax and recomputed probabilities follow Dao et al., FlashAttention, 2022.
#include "compiler/codegen/cuda/attention/attention.h"
#include "core/base/error.h"

namespace lockstep::compiler::cuda {

namespace {
const char* const kTypes = R"(
struct View { long long batch, token, head; };
struct Over { long long batch, head, token, key; };
struct Args {
  const Stored *q, *k, *v, *o, *grad;
  Stored *out, *dq, *dk, *dv;
  Real *lse, *delta;
  View qs, ks, vs, os, gs, dqs, dks, dvs;
  long long batch, heads, kv_heads;
  int queries, keys;
  double scale;
  const int *lengths, *documents;
  const unsigned char* mask;
  const Real* bias;
  Real* dbias;
  Over masks, biases;
};
#define INFTY ((Real)(1.0 / 0.0))
__device__ static long long over(Over at, long long b, long long h, int row, int column) {
  return b * at.batch + h * at.head + row * at.token + column * at.key;
}
// Of rows after the last query nothing is read: they follow the masks of columns alone, and are never stored.
__device__ static bool seen(const Args& a, long long b, long long h, int row, int column) {
  if (column >= a.keys || (CAUSAL && column > row) || (WINDOW && column <= row - WINDOW)) return false;
  if (LENGTHS && column >= a.lengths[b]) return false;
  if (row >= a.queries) return true;
  if (DOCUMENTS && a.documents[b * a.keys + row] != a.documents[b * a.keys + column]) return false;
  return !MASK || a.mask[over(a.masks, b, h, row, column)];
}
__device__ static Real biased(const Args& a, Real score, long long b, long long h, int row, int column) {
  return BIAS && row < a.queries ? score + a.bias[over(a.biases, b, h, row, column)] : score;
}
)";

const char* const kSharedMemory = R"(
#ifndef SHARED
extern __shared__ Real attention_memory[];
#define SHARED(memory) Real* memory = attention_memory;
#endif
)";

const char* const kRowSum = R"(
// Over the 16 threads of a row; every one gets the same bits.
__device__ static Real row_sum(Real x) {
  for (int lane = 8; lane > 0; lane /= 2) x += __shfl_xor_sync(0xffffffffu, x, lane);
  return x;
}
)";

const char* const kRowTiles = R"(
#define R (TILE / 16)
#define DP ((D + 15) / 16 * 16)
#define C (DP / 16)
#define PITCH (DP + 1)
#define WPITCH (TILE + 1)

__device__ static void load_tile(Real* to, const Stored* from, long long token, int first, int limit) {
  for (int i = threadIdx.x; i < TILE * DP; i += 256) {
    int row = i / DP, d = i % DP;
    to[row * PITCH + d] = first + row < limit && d < D ? load(from[(long long)(first + row) * token + d]) : (Real)0;
  }
}
// s[i][j] = sum over d of a[row i][d] * b[column j][d]
__device__ static void products(Real (&s)[R][R], const Real* a, const Real* b, int y, int x) {
  for (int i = 0; i < R; ++i)
    for (int j = 0; j < R; ++j) s[i][j] = 0;
#pragma unroll 4
  for (int d = 0; d < DP; ++d) {
    Real left[R], right[R];
    for (int i = 0; i < R; ++i) left[i] = a[(y + 16 * i) * PITCH + d];
    for (int j = 0; j < R; ++j) right[j] = b[(x + 16 * j) * PITCH + d];
    for (int i = 0; i < R; ++i)
      for (int j = 0; j < R; ++j) s[i][j] = FMA(left[i], right[j], s[i][j]);
  }
}
// sum[i][c] += sum over n of w[row i][n] * m[n][column c]; across: w is indexed [n][row].
__device__ static void add_rows(Real (&sum)[R][C], const Real* w, const Real* m, int y, int x, bool across) {
#pragma unroll 4
  for (int n = 0; n < TILE; ++n) {
    Real left[R];
    for (int i = 0; i < R; ++i) left[i] = across ? w[n * WPITCH + y + 16 * i] : w[(y + 16 * i) * WPITCH + n];
    for (int c = 0; c < C; ++c) {
      Real right = m[n * PITCH + x + 16 * c];
      for (int i = 0; i < R; ++i) sum[i][c] = FMA(left[i], right, sum[i][c]);
    }
  }
}
__device__ static void store_rows(Stored* to, long long token, const Real (&sum)[R][C], int first, int limit, int y, int x) {
  for (int i = 0; i < R; ++i)
    for (int c = 0; c < C; ++c) {
      int row = first + y + 16 * i, d = x + 16 * c;
      if (row < limit && d < D) to[(long long)row * token + d] = store(sum[i][c]);
    }
}
// Over the 16 threads of a row; every one gets the same bits.
__device__ static Real row_max(Real x) {
  for (int lane = 8; lane > 0; lane /= 2) {
    Real other = __shfl_xor_sync(0xffffffffu, x, lane);
    x = other > x ? other : x;
  }
  return x;
}
// Keys [first, last) of which rows q0 ... q0 + TILE - 1 may see some, in whole tiles from `first`.
__device__ static int first_key(int q0) { return WINDOW && q0 >= WINDOW ? (q0 - WINDOW + 1) / TILE * TILE : 0; }
__device__ static int last_key(const Args& a, long long b, int q0) {
  int last = CAUSAL && q0 + TILE < a.keys ? q0 + TILE : a.keys;
  return LENGTHS && a.lengths[b] < last ? a.lengths[b] : last;
}
)";

const char* const kForward = R"(
extern "C" __global__ void __launch_bounds__(256) sdpa_forward(Args a) {
  SHARED(memory)
  Real *q = memory, *k = q + TILE * PITCH, *v = k + TILE * PITCH, *w = v + TILE * PITCH;
  int y = threadIdx.x / 16, x = threadIdx.x % 16;
  long long tiles = (a.queries + TILE - 1) / TILE, task = blockIdx.x / tiles;
  int q0 = (int)(tiles - 1 - blockIdx.x % tiles) * TILE;  // the longest rows of a causal mask begin first
  long long h = task % a.heads, b = task / a.heads, kv = h / (a.heads / a.kv_heads);
  const Stored* ks = a.k + b * a.ks.batch + kv * a.ks.head;
  const Stored* vs = a.v + b * a.vs.batch + kv * a.vs.head;
  load_tile(q, a.q + b * a.qs.batch + h * a.qs.head, a.qs.token, q0, a.queries);
  Real scale = (Real)a.scale, sum[R][C], most[R], total[R], s[R][R];
  for (int i = 0; i < R; ++i) {
    most[i] = -INFTY, total[i] = 0;
    for (int c = 0; c < C; ++c) sum[i][c] = 0;
  }
  int limit = last_key(a, b, q0);
  for (int k0 = first_key(q0); k0 < limit; k0 += TILE) {
    __syncthreads();
    load_tile(k, ks, a.ks.token, k0, a.keys);
    load_tile(v, vs, a.vs.token, k0, a.keys);
    __syncthreads();
    products(s, q, k, y, x);
    for (int i = 0; i < R; ++i) {
      int row = q0 + y + 16 * i;
      Real best = most[i];
      for (int j = 0; j < R; ++j) {
        int column = k0 + x + 16 * j;
        s[i][j] = seen(a, b, h, row, column) ? biased(a, s[i][j] * scale, b, h, row, column) : -INFTY;
        best = s[i][j] > best ? s[i][j] : best;
      }
      best = row_max(best);
      // A row that has seen nothing yet: exp(-inf) of everything.
      Real base = MASKED && best == -INFTY ? (Real)0 : best;
      Real shrink = EXP(most[i] - base), part = 0;
      for (int j = 0; j < R; ++j) {
        Real p = EXP(s[i][j] - base);
        part += p;
        w[(y + 16 * i) * WPITCH + x + 16 * j] = p;
      }
      total[i] = total[i] * shrink + row_sum(part);
      most[i] = best;
      for (int c = 0; c < C; ++c) sum[i][c] *= shrink;
    }
    __syncthreads();
    add_rows(sum, w, v, y, x, false);
  }
  for (int i = 0; i < R; ++i) {
    int row = q0 + y + 16 * i;
    if (MASKED && total[i] == 0) most[i] = 0, total[i] = 1;  // it sees nothing: 0, and so is its log-sum-exp
    if (x == 0 && row < a.queries) a.lse[(b * a.heads + h) * a.queries + row] = most[i] + LOG(total[i]);
    for (int c = 0; c < C; ++c) sum[i][c] = sum[i][c] / total[i];
  }
  store_rows(a.out + b * a.os.batch + h * a.os.head, a.os.token, sum, q0, a.queries, y, x);
}
)";

const char* const kDelta = R"(
// delta[b][h][t] = sum over d of do * o: 16 threads per row.
extern "C" __global__ void __launch_bounds__(256) sdpa_delta(Args a) {
  long long row = (long long)blockIdx.x * 16 + threadIdx.x / 16, rows = a.batch * a.heads * a.queries;
  long long t = row % a.queries, h = row / a.queries % a.heads, b = row / a.queries / a.heads;
  Real sum = 0;
  if (row < rows)
    for (int d = threadIdx.x % 16; d < D; d += 16)
      sum = FMA(load(a.grad[b * a.gs.batch + t * a.gs.token + h * a.gs.head + d]),
                load(a.o[b * a.os.batch + t * a.os.token + h * a.os.head + d]), sum);
  sum = row_sum(sum);
  if (row < rows && threadIdx.x % 16 == 0) a.delta[row] = sum;
}
)";

const char* const kBackward = R"(
// p = exp(scale * q k + bias - lse) and ds = p (do v - delta) scale of one tile; p may be null, and then the
// bias's gradient, ds / scale, is stored where it is wanted.
__device__ static void tile_gradients(const Args& a, const Real* q, const Real* k, const Real* grad, const Real* v, long long b,
                                      long long h, int q0, int k0, Real* p_out, Real* ds_out, int y, int x) {
  long long first = (b * a.heads + h) * a.queries;
  const Real *lse = a.lse + first, *delta = a.delta + first;
  Real s[R][R], dp[R][R], scale = (Real)a.scale;
  products(s, q, k, y, x);
  products(dp, grad, v, y, x);
  for (int i = 0; i < R; ++i) {
    int row = q0 + y + 16 * i;
    Real row_lse = row < a.queries ? lse[row] : (Real)0, row_delta = row < a.queries ? delta[row] : (Real)0;
    for (int j = 0; j < R; ++j) {
      int column = k0 + x + 16 * j;
      bool on = row < a.queries && seen(a, b, h, row, column);
      Real p = on ? EXP(biased(a, s[i][j] * scale, b, h, row, column) - row_lse) : (Real)0;
      int at = (y + 16 * i) * WPITCH + x + 16 * j;
      if (p_out) p_out[at] = p;
      Real g = on ? p * (dp[i][j] - row_delta) : (Real)0;
      ds_out[at] = on ? g * scale : (Real)0;
      if (DBIAS && !p_out && row < a.queries && column < a.keys) a.dbias[(first + row) * a.keys + column] = g;
    }
  }
}

// dk and dv of one tile of keys: query heads of the group in order, tiles of queries in order.
extern "C" __global__ void __launch_bounds__(256) sdpa_keys(Args a) {
  SHARED(memory)
  Real *k = memory, *v = k + TILE * PITCH, *q = v + TILE * PITCH, *grad = q + TILE * PITCH;
  Real *p = grad + TILE * PITCH, *ds = p + TILE * WPITCH;
  int y = threadIdx.x / 16, x = threadIdx.x % 16;
  long long tiles = (a.keys + TILE - 1) / TILE, task = blockIdx.x / tiles;
  int k0 = (int)(blockIdx.x % tiles) * TILE;
  long long kv = task % a.kv_heads, b = task / a.kv_heads, group = a.heads / a.kv_heads;
  load_tile(k, a.k + b * a.ks.batch + kv * a.ks.head, a.ks.token, k0, a.keys);
  load_tile(v, a.v + b * a.vs.batch + kv * a.vs.head, a.vs.token, k0, a.keys);
  Real dk[R][C], dv[R][C];
  for (int i = 0; i < R; ++i)
    for (int c = 0; c < C; ++c) dk[i][c] = 0, dv[i][c] = 0;
  for (long long h = kv * group; h < (kv + 1) * group; ++h) {
    const Stored* qs = a.q + b * a.qs.batch + h * a.qs.head;
    const Stored* gs = a.grad + b * a.gs.batch + h * a.gs.head;
    // Rows that may see one of the tile's keys.
    int last = WINDOW && k0 + TILE - 1 + WINDOW < a.queries ? k0 + TILE - 1 + WINDOW : a.queries;
    if (LENGTHS && k0 >= a.lengths[b]) last = 0;
    for (int q0 = CAUSAL ? k0 : 0; q0 < last; q0 += TILE) {
      __syncthreads();
      load_tile(q, qs, a.qs.token, q0, a.queries);
      load_tile(grad, gs, a.gs.token, q0, a.queries);
      __syncthreads();
      tile_gradients(a, q, k, grad, v, b, h, q0, k0, p, ds, y, x);
      __syncthreads();
      add_rows(dv, p, grad, y, x, true);
      add_rows(dk, ds, q, y, x, true);
    }
  }
  store_rows(a.dk + b * a.dks.batch + kv * a.dks.head, a.dks.token, dk, k0, a.keys, y, x);
  store_rows(a.dv + b * a.dvs.batch + kv * a.dvs.head, a.dvs.token, dv, k0, a.keys, y, x);
}

// dq of one tile of queries, tiles of keys in order.
extern "C" __global__ void __launch_bounds__(256) sdpa_queries(Args a) {
  SHARED(memory)
  Real *q = memory, *grad = q + TILE * PITCH, *k = grad + TILE * PITCH, *v = k + TILE * PITCH, *ds = v + TILE * PITCH;
  int y = threadIdx.x / 16, x = threadIdx.x % 16;
  long long tiles = (a.queries + TILE - 1) / TILE, task = blockIdx.x / tiles;
  int q0 = (int)(tiles - 1 - blockIdx.x % tiles) * TILE;
  long long h = task % a.heads, b = task / a.heads, kv = h / (a.heads / a.kv_heads);
  const Stored* ks = a.k + b * a.ks.batch + kv * a.ks.head;
  const Stored* vs = a.v + b * a.vs.batch + kv * a.vs.head;
  load_tile(q, a.q + b * a.qs.batch + h * a.qs.head, a.qs.token, q0, a.queries);
  load_tile(grad, a.grad + b * a.gs.batch + h * a.gs.head, a.gs.token, q0, a.queries);
  Real dq[R][C];
  for (int i = 0; i < R; ++i)
    for (int c = 0; c < C; ++c) dq[i][c] = 0;
  int limit = DBIAS ? a.keys : last_key(a, b, q0);  // the bias's gradient is stored everywhere
  for (int k0 = DBIAS ? 0 : first_key(q0); k0 < limit; k0 += TILE) {
    __syncthreads();
    load_tile(k, ks, a.ks.token, k0, a.keys);
    load_tile(v, vs, a.vs.token, k0, a.keys);
    __syncthreads();
    tile_gradients(a, q, k, grad, v, b, h, q0, k0, (Real*)0, ds, y, x);
    __syncthreads();
    add_rows(dq, ds, k, y, x, false);
  }
  store_rows(a.dq + b * a.dqs.batch + h * a.dqs.head, a.dqs.token, dq, q0, a.queries, y, x);
}
)";

// Element type in memory, type of the sums, and conversions that round once to nearest even (PTX cvt, sm_80
// and later).
std::string numbers_of(DType dtype) {
  std::string real = dtype == DType::f64 ? "double" : "float", f = dtype == DType::f64 ? "" : "f";
  std::string head = str("typedef ", real, " Real;\n#define FMA fma", f, "\n#define EXP exp", f,
                         "\n#define LOG log", f, "\n");
  if (dtype == DType::f32 || dtype == DType::f64)
    return head + str("typedef ", real, " Stored;\n__device__ static Real load(Stored x) { return x; }\n",
                      "__device__ static Stored store(Real x) { return x; }\n");
  LS_CHECK(dtype == DType::bf16 || dtype == DType::f16, "attention of ", name(dtype));
  head += "typedef unsigned short Stored;\n";
  head += dtype == DType::bf16
              ? "__device__ static Real load(Stored x) { return __uint_as_float((unsigned)x << 16); }\n"
              : "__device__ static Real load(Stored x) { float f; asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(f) : "
                "\"h\"(x)); "
                "return f; }\n";
  return head + str("__device__ static Stored store(Real x) { unsigned short u; asm(\"cvt.rn.", name(dtype),
                    ".f32 %0, %1;\" : \"=h\"(u) : \"f\"(x)); return u; }\n");
}
std::string masks_source(const AttentionShape& shape) {
  const AttentionReads& reads = shape.reads;
  auto on = [](bool is) { return is ? 1 : 0; };
  return str("\n#define CAUSAL ", on(reads.causal), "\n#define WINDOW ",
             reads.window < shape.keys ? reads.window : 0, "\n#define LENGTHS ", on(reads.lengths),
             "\n#define DOCUMENTS ", on(reads.documents), "\n#define MASK ", on(reads.mask),
             "\n#define BIAS ", on(reads.bias), "\n#define DBIAS ", on(reads.bias_gradient),
             "\n#define MASKED (WINDOW || LENGTHS || DOCUMENTS || MASK || BIAS)");
}
}  // namespace

AttentionTiles attention_tiles(const AttentionShape& shape, int shared_per_block) {
  if (shape.size > 256)
    throw UserError(str("attention with head size ", shape.size,
                        " on CUDA: head sizes up to 256 are supported; use more, smaller heads"));
  int64_t real = shape.dtype == DType::f64 ? 8 : 4, pitch = (shape.size + 15) / 16 * 16 + 1;
  AttentionTiles tiles;
  // The size depends only on the shape, so that the bits do, too. Every device since compute capability 8.0
  // has at least 99 KiB.
  for (int rows : {64, 32, 16}) {
    tiles.rows = rows;
    tiles.forward_bytes = static_cast<int>(real * (3 * rows * pitch + rows * (rows + 1)));
    tiles.backward_bytes = static_cast<int>(real * (4 * rows * pitch + 2 * rows * (rows + 1)));
    if (tiles.backward_bytes <= 99 * 1024) break;
  }
  int needed = shape.backward ? tiles.backward_bytes : tiles.forward_bytes;
  if (needed > shared_per_block)
    throw UserError(str("attention of ", name(shape.dtype), " with head size ", shape.size, " needs ", needed,
                        " bytes of shared memory per block; this device has ", shared_per_block,
                        ". Use f32 or a smaller head size"));
  return tiles;
}

std::string attention_prelude(const AttentionShape& shape) {
  return str(numbers_of(shape.dtype), masks_source(shape), kTypes);
}

std::string attention_source(const AttentionShape& shape, int tile_rows) {
  return str(attention_prelude(shape), "#define D ", shape.size, "\n#define TILE ", tile_rows, kSharedMemory,
             kRowSum, kRowTiles, shape.backward ? str(kDelta, kBackward) : kForward);
}
std::string attention_delta_source() { return str(kSharedMemory, kRowSum, kDelta); }

AttentionArgs attention_args(const AttentionShape& s, const AttentionPointers& p, void* delta) {
  LS_CHECK(s.queries < int64_t{1} << 30 && s.keys < int64_t{1} << 30, "attention over ", s.queries, " and ",
           s.keys, " tokens");
  return {p.q,
          p.k,
          p.v,
          p.o,
          p.grad,
          p.o,
          p.dq,
          p.dk,
          p.dv,
          p.lse,
          delta,
          s.q,
          s.k,
          s.v,
          s.o,
          s.grad,
          s.dq,
          s.dk,
          s.dv,
          s.batch,
          s.heads,
          s.kv_heads,
          static_cast<int>(s.queries),
          static_cast<int>(s.keys),
          s.scale,
          p.lengths,
          p.documents,
          p.mask,
          p.bias,
          p.dbias,
          s.mask,
          s.bias};
}

AttentionKernels tiled_attention(const AttentionShape& s, int shared_per_block) {
  const AttentionTiles tiles = attention_tiles(s, shared_per_block);
  auto blocks = [](int64_t count, int64_t per_block) { return (count + per_block - 1) / per_block; };
  int64_t queries = s.batch * s.heads * blocks(s.queries, tiles.rows);
  AttentionKernels out{str("own tile=", tiles.rows), {}, {{"sdpa_forward", queries, tiles.forward_bytes}}};
  if (s.backward)
    out.launches = {{"sdpa_delta", blocks(s.batch * s.heads * s.queries, 16), 0},
                    {"sdpa_keys", s.batch * s.kv_heads * blocks(s.keys, tiles.rows), tiles.backward_bytes},
                    {"sdpa_queries", queries, tiles.backward_bytes}};
  check_launches(out.launches);
  out.source = attention_source(s, tiles.rows);
  return out;
}

}  // namespace lockstep::compiler::cuda
