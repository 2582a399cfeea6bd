// CUDA C++ that the causal backward pass of attention on Hopper is made of: places in shared memory,
// instructions of the PTX language by names, and the kernels before and after its tiles.
#include "compiler/codegen/cuda/attention.h"
#include "core/base/error.h"

namespace lockstep::compiler::cuda {

namespace {
// D: head size. M: queries of a step. N: keys of a tile, half of them per consumer warpgroup. A panel is 64
// columns of a tile, rows of 128 bytes, swizzled by 128 bytes.
const char* const kPlaces = R"(
typedef unsigned int u32;
typedef unsigned long long u64;
constexpr int M = 8192 / D, N = 128;
constexpr int kPanelQ = M * 128, kPanelK = N * 128, kQ = M * D * 2, kK = N * D * 2, kS = N * M * 2, kDq = M * D * 4;
constexpr int kAtK = 0, kAtV = kK, kAtQ = 2 * kK, kAtG = kAtQ + 2 * kQ, kAtS = kAtG + 2 * kQ, kAtDq = kAtS + 2 * kS,
              kAtRows = kAtDq + 2 * kDq, kAtBarriers = kAtRows + 4 * M * 4, kAtTicket = kAtBarriers + 192;
static_assert(kAtTicket + 4 <= SHARED_BYTES, "");
struct alignas(64) Map { u64 words[16]; };
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

const char* const kInstructions = R"(
__device__ __forceinline__ u32 shared_of(const void* p) { return (u32)__cvta_generic_to_shared(p); }
__device__ __forceinline__ void begin_barrier(u32 bar, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(count));
}
__device__ __forceinline__ void expect(u32 bar, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}
__device__ __forceinline__ void arrive(u32 bar) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
}
// The phase of the k-th use of a barrier that has two stages in turn is k / 2 % 2.
__device__ __forceinline__ void await(u32 bar, int phase) {
  asm volatile("{\n.reg .pred p;\nAGAIN:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@p bra DONE;\n"
               "bra AGAIN;\nDONE:\n}" ::"r"(bar), "r"(phase) : "memory");
}
__device__ __forceinline__ void bring_panel(u32 to, const Map* map, u32 bar, int d, int head, int token, int batch) {
  asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes "
               "[%0], [%1, {%3, %4, %5, %6}], [%2];"
               ::"r"(to), "l"(map), "r"(bar), "r"(d), "r"(head), "r"(token), "r"(batch) : "memory");
}
__device__ __forceinline__ void bring(u32 to, const void* from, int bytes, u32 bar) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
               ::"r"(to), "l"(from), "r"(bytes), "r"(bar) : "memory");
}
// The first of a sum is stored, the others are added.
__device__ __forceinline__ void send(float* to, u32 from, int bytes, bool first) {
  if (first)
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
                 ::"l"(to), "r"(from), "r"(bytes) : "memory");
  else
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;"
                 ::"l"(to), "r"(from), "r"(bytes) : "memory");
}
__device__ __forceinline__ void sent() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
__device__ __forceinline__ void await_read() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
__device__ __forceinline__ void await_written() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }
__device__ __forceinline__ void fence_copies() { asm volatile("fence.proxy.async;" ::: "memory"); }
__device__ __forceinline__ void fence_shared() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ __forceinline__ void await_turn(const int* turn, int mine) {
  int seen;
  do asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(seen) : "l"(turn) : "memory");
  while (seen != mine);
  fence_copies();
}
__device__ __forceinline__ void give_turn(int* turn, int next) {
  fence_copies();
  asm volatile("st.release.gpu.global.s32 [%0], %1;" ::"l"(turn), "r"(next) : "memory");
}
__device__ __forceinline__ void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void end_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Until all but the last K groups of products are done.
template <int K> __device__ __forceinline__ void await_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(K) : "memory");
}
template <int R> __device__ __forceinline__ void use(float (&x)[R]) {
#pragma unroll
  for (int i = 0; i < R; ++i) asm volatile("" : "+f"(x[i])::"memory");
}
// An operand of a product: rows of 128 bytes, swizzled; `panel`: bytes from 64 columns to the next 64, where
// columns are what the product keeps.
__device__ __forceinline__ u64 operand(u32 address, int panel = 16) {
  return (u64)((address & 0x3ffff) >> 4) | (u64)(panel >> 4) << 16 | (u64)(1024 >> 4) << 32 | 1ull << 62;
}
__device__ __forceinline__ u32 pack(float low, float high) {
  u32 r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}
__device__ __forceinline__ float power_of_2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ float2 two_at(u32 address) {
  float2 r;
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(r.x), "=f"(r.y) : "r"(address));
  return r;
}
__device__ __forceinline__ void put(u32 address, float a, float b, float c, float d) {
  asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(address), "f"(a), "f"(b), "f"(c), "f"(d) : "memory");
}
__device__ __forceinline__ void put_matrices(u32 address, const u32* x) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
               ::"r"(address), "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]) : "memory");
}
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

// multiply(sums of 64 rows and `columns` columns, left, right, add): one wgmma of depth 16. Left lies in
// shared memory, or (`held`) in registers. TA, TB: the operand's rows are what is summed over.
std::string product_source(int columns, bool held) {
  const int sums = columns / 2, left = held ? 4 : 1;
  auto names = [](int first, int count) {
    std::string all;
    for (int i = first; i < first + count; ++i) all += str(i > first ? "," : "", "%", i);
    return all;
  };
  std::string outputs;
  for (int i = 0; i < sums; ++i) outputs += str(i ? ", " : "", "\"+f\"(c[", i, "])");
  const std::string right = str("%", sums + left), add = str("%", sums + left + 1);
  const std::string shape =
      str("wgmma.mma_async.sync.aligned.m64n", columns, "k16.f32.bf16.bf16 {", names(0, sums), "}, ");
  if (held)
    return str("__device__ __forceinline__ void multiply(float (&c)[", sums,
               "], const u32* a, u64 b) {\n  asm volatile(\"", shape, "{", names(sums, 4), "}, ", right,
               ", 1, 1, 1, 1;\" : ", outputs,
               " : \"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3]), \"l\"(b));\n}\n");
  return str("template <int TA, int TB> __device__ __forceinline__ void multiply(float (&c)[", sums,
             "], u64 a, u64 b, int add) {\n  asm volatile(\"{\\n.reg .pred p;\\nsetp.ne.b32 p, ", add,
             ", 0;\\n", shape, names(sums, 1), ", ", right, ", p, 1, 1, ", "%", sums + 3, ", %", sums + 4,
             ";\\n}\" : ", outputs, " : \"l\"(a), \"l\"(b), \"r\"(add), \"n\"(TA), \"n\"(TB));\n}\n");
}
}  // namespace

std::string hopper_attention_instructions(int64_t size) {
  std::string products = product_source(64, false) + product_source(static_cast<int>(size), true);
  if (size == 64) products += product_source(128, false);
  return str("#define D ", size, "\n#define SHARED_BYTES ", kHopperAttentionBytes, "\n", kPlaces,
             kInstructions, products);
}
std::string hopper_attention_ends() { return kEnds; }

}  // namespace lockstep::compiler::cuda
