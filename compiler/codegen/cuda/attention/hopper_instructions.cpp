// CUDA C++ of the causal backward pass of attention on Hopper, without its tiles: places in shared memory,
// and the kernels before and after.
#include "compiler/codegen/cuda/source/hopper_instructions.h"
#include "compiler/codegen/cuda/attention/attention.h"
#include "core/base/error.h"

namespace lockstep::compiler::cuda {

namespace {
// D: head size. M: queries of a step. N: keys of a tile, half of them per consumer warpgroup. A panel is 64
// columns of a tile, rows of 128 bytes, swizzled by 128 bytes.
const char* const kPlaces = R"(
constexpr int M = 8192 / D, N = 128;
constexpr int kPanelQ = M * 128, kPanelK = N * 128, kQ = M * D * 2, kK = N * D * 2, kS = N * M * 2, kDq = M * D * 4;
constexpr int kAtK = 0, kAtV = kK, kAtQ = 2 * kK, kAtG = kAtQ + 2 * kQ, kAtS = kAtG + 2 * kQ, kAtDq = kAtS + 2 * kS,
              kAtRows = kAtDq + 2 * kDq, kAtBarriers = kAtRows + 4 * M * 4, kAtTicket = kAtBarriers + 192;
static_assert(kAtTicket + 4 <= SHARED_BYTES, "");
struct View { long long batch, token, head; };
struct Args {
  Map q, k, v, g;
  const unsigned short *o, *grad;
  const float* lse;
  float *rows, *dq, *dk, *dv;  // rows: [batch, heads, blocks of M][lse * log2(e), delta][M]
  unsigned short *dq_out, *dk_out, *dv_out;
  View os, gs, dqs, dks, dvs;
  int *ticket, *turns, *key_turns;
  int batch, heads, kv_heads, tokens;
  float scale;
};
enum Barrier { kKeys, kQueries, kQueriesRead = 3, kGrads = 5, kGradsRead = 7, kScores = 9, kScoresRead = 11, kSums = 13,
               kSumsSent = 17, kBarriers = 19 };
)";

const char* const kEnds = R"(
__device__ __forceinline__ float wide(u32 x) { return __uint_as_float(x << 16); }
// A warp per query: delta, lse to base 2. All turns begin at 0.
extern "C" __global__ void __launch_bounds__(256) sdpa_rows(const __grid_constant__ Args p) {
  const long long at = (long long)blockIdx.x * 8 + threadIdx.x / 32;  // [batch, heads, tokens]
  const int lane = threadIdx.x % 32, token = at % p.tokens, h = at / p.tokens % p.heads;
  const long long b = at / p.tokens / p.heads;
  const u32* o = (const u32*)(p.o + b * p.os.batch + token * p.os.token + h * p.os.head);
  const u32* g = (const u32*)(p.grad + b * p.gs.batch + token * p.gs.token + h * p.gs.head);
  float sum = 0;
#pragma unroll
  for (int c = 0; c < D / 64; ++c) {
    const u32 x = o[c * 32 + lane], y = g[c * 32 + lane];
    sum = fmaf(wide(x >> 16), wide(y >> 16), fmaf(wide(x & 0xffff), wide(y & 0xffff), sum));
  }
#pragma unroll
  for (int i = 16; i; i /= 2) sum += __shfl_xor_sync(~0u, sum, i);
  if (lane) return;
  float* rows = p.rows + at / M * 2 * M + at % M;
  rows[0] = p.lse[at] * 1.4426950408889634f, rows[M] = sum;
  if (at % M == 0) p.turns[at / M] = 0;
  if (at % 64 == 0 && at / 64 < (long long)p.batch * p.kv_heads * p.tokens / 64) p.key_turns[at / 64] = 0;
  if (at == 0) *p.ticket = 0;
}
// A block writes 64 rows of dq, dk or dv, whose sums lie as the threads of a product hold them: pieces of 8
// columns, [128 threads][4].
extern "C" __global__ void __launch_bounds__(256) sdpa_results(const __grid_constant__ Args p) {
  __shared__ float tile[64 * (D + 4)];
  const int blocks = p.tokens / 64, queries = p.batch * p.heads * blocks, keys = p.batch * p.kv_heads * blocks;
  int at = blockIdx.x, which = 0;
  if (at >= queries) at -= queries, which = 1;
  if (which && at >= keys) at -= keys, which = 2;
  const float4* from = (const float4*)((which == 0 ? p.dq : which == 1 ? p.dk : p.dv) + (long long)at * 64 * D);
  for (int i = threadIdx.x; i < 16 * D; i += 256) {
    const float4 x = from[i];
    const int row = i % 128 / 32 * 16 + i % 32 / 4, column = i / 128 * 8 + i % 4 * 2;
    float *low = tile + row * (D + 4) + column, *high = low + 8 * (D + 4);
    low[0] = x.x, low[1] = x.y, high[0] = x.z, high[1] = x.w;
  }
  __syncthreads();
  const View& view = which == 0 ? p.dqs : which == 1 ? p.dks : p.dvs;
  const int heads = which == 0 ? p.heads : p.kv_heads, head = at / blocks % heads;
  const long long b = at / blocks / heads, first = at % blocks * 64;
  unsigned short* to = (which == 0 ? p.dq_out : which == 1 ? p.dk_out : p.dv_out) + b * view.batch + head * view.head;
  const float scale = which == 2 ? 1.0f : p.scale;
  for (int i = threadIdx.x; i < 8 * D; i += 256) {
    const int row = i / (D / 8), column = i % (D / 8) * 8;
    const float* x = tile + row * (D + 4) + column;
    *(uint4*)(to + (first + row) * view.token + column) =
        uint4{pack(x[0] * scale, x[1] * scale), pack(x[2] * scale, x[3] * scale), pack(x[4] * scale, x[5] * scale),
              pack(x[6] * scale, x[7] * scale)};
  }
}
)";

}  // namespace

std::string hopper_attention_instructions(int64_t size) {
  std::string products = hopper_product(64, false) + hopper_product(static_cast<int>(size), true);
  if (size == 64) products += hopper_product(128, false);
  return str("#define D ", size, "\n#define SHARED_BYTES ", kHopperAttentionBytes, "\n",
             hopper_instructions(), kPlaces, products);
}
std::string hopper_attention_ends() { return kEnds; }

}  // namespace lockstep::compiler::cuda
