// CUDA C++ of the causal backward pass of attention on Hopper's warpgroup products (wgmma) and tile copies
// (TMA). A block owns 128 keys of one head and walks over the queries that attend to them. For each block of
// queries it adds its part of dQ to f32 sums in memory in a fixed turn: the part from the diagonal first,
// then lower keys. Blocks take tiles in an order in which every awaited tile has started before. So waiting
// for a turn costs almost no time, and no schedule of blocks can hang. If query heads share keys, sums of dK
// and dV are added in turns, too. Tiles, recomputed probabilities and two consumer warpgroups follow Shah et
// al., FlashAttention-3, 2024.
#include "compiler/codegen/cuda/attention/attention.h"
#include "core/base/error.h"

namespace lockstep::compiler::cuda {

namespace {
// Roles: the loading warp and the two that send sums of dQ; then consumer warpgroups, each with 64 keys.
const char* const kTile = R"(
struct Tile { int batch, head, kv_head, of_keys, keys, first, steps; };  // of_keys: which of the heads that share keys
__device__ __forceinline__ Tile tile_of(const Args& p, int ticket) {
  const int tiles = p.tokens / N, shared = p.heads / p.kv_heads;
  const int heads = p.batch * p.heads % 2 ? 1 : 2;  // side by side, so that a wave of blocks is of few heads
  const int place = ticket % (heads * tiles), at = ticket / (heads * tiles) * heads + place % heads;
  const int keys = tiles - 1 - place / heads, first = keys * (N / M);
  return {at / p.heads, at % p.heads, at % p.heads / shared, at % p.heads % shared, keys, first, p.tokens / M - first};
}
__device__ __forceinline__ long long block_of(const Args& p, const Tile& tile, int t) {
  return ((long long)tile.batch * p.heads + tile.head) * (p.tokens / M) + tile.first + t;
}
__device__ __forceinline__ void load(const Args& p, const Tile& tile, u32 base) {
  const u32 bars = base + kAtBarriers;
  expect(bars + 8 * kKeys, 2 * kK);
  for (int c = 0; c < D / 64; ++c) {
    bring_panel(base + kAtK + c * kPanelK, &p.k, bars + 8 * kKeys, 64 * c, tile.kv_head, tile.keys * N, tile.batch);
    bring_panel(base + kAtV + c * kPanelK, &p.v, bars + 8 * kKeys, 64 * c, tile.kv_head, tile.keys * N, tile.batch);
  }
  for (int t = 0; t < tile.steps; ++t) {
    const int s = t % 2, before = (t / 2 & 1) ^ 1, token = (tile.first + t) * M;
    const float* rows = p.rows + block_of(p, tile, t) * 2 * M;
    const u32 queries = bars + 8 * (kQueries + s), grads = bars + 8 * (kGrads + s), here = base + kAtRows + s * 8 * M;
    if (t >= 2) await(bars + 8 * (kQueriesRead + s), before);
    expect(queries, kQ + 4 * M);
    for (int c = 0; c < D / 64; ++c)
      bring_panel(base + kAtQ + s * kQ + c * kPanelQ, &p.q, queries, 64 * c, tile.head, token, tile.batch);
    bring(here, rows, 4 * M, queries);
    if (t >= 2) await(bars + 8 * (kGradsRead + s), before);
    expect(grads, kQ + 4 * M);
    for (int c = 0; c < D / 64; ++c)
      bring_panel(base + kAtG + s * kQ + c * kPanelQ, &p.g, grads, 64 * c, tile.head, token, tile.batch);
    bring(here + 4 * M, rows + M, 4 * M, grads);
  }
}
__device__ __forceinline__ void send_sums(const Args& p, const Tile& tile, u32 base, int s) {  // of steps s, s + 2, ...
  const u32 bars = base + kAtBarriers;
  for (int t = s; t < tile.steps; t += 2) {
    const int mine = (tile.first + t) / (N / M) - tile.keys;
    const long long at = block_of(p, tile, t);
    for (int w = 0; w < 2; ++w) await(bars + 8 * (kSums + 2 * s + w), t / 2 & 1);
    if (mine) await_turn(p.turns + at, mine);
    send(p.dq + at * (M * D), base + kAtDq + s * kDq, kDq, !mine);
    sent();
    await_read();
    arrive(bars + 8 * (kSumsSent + s));
    await_written();
    give_turn(p.turns + at, mine + 1);
  }
}
struct Yes { static constexpr bool value = true; };
struct No { static constexpr bool value = false; };
)";

const char* const kConsume = R"(
__device__ __forceinline__ void consume(const Args& p, const Tile& tile, u32 base, int w) {
  const int thread = threadIdx.x % 128, warp = thread / 32, lane = threadIdx.x % 32;
  const int row = 16 * warp + lane / 4, pair = 2 * (lane % 4);  // of this thread's numbers of a product
  const u32 bars = base + kAtBarriers;
  const float scale = p.scale * 1.4426950408889634f;
  float dk[D / 2], dv[D / 2], sc[M / 2];  // sums; scores of the step that comes: [64 keys][M queries]
#pragma unroll
  for (int i = 0; i < D / 2; ++i) dk[i] = dv[i] = 0;
  const u64 k_rows = operand(base + kAtK + w * 64 * 128), v_rows = operand(base + kAtV + w * 64 * 128);
  // Of dQ a warpgroup makes 64 columns (D = 128) or 64 rows (D = 64).
  const u64 k_columns = operand(base + kAtK + (D == 128 ? w * kPanelK : 0));
  const u32 s_row = 64 * w + 16 * warp + lane % 16, s_at = base + kAtS + s_row * 128, s_swizzle = s_row % 8;

  auto show = [&](int barrier, int stage) {  // what this warp read, and wrote before its last fence
    if (lane < LANES) arrive(bars + 8 * (barrier + stage));
  };
  // From columns 0 to 15 of an operand by rows to its columns 16 k to 16 k + 15, in units of 16 bytes.
  auto depth = [](int k, int panel) { return (k / 4 * panel + k % 4 * 32) >> 4; };
  auto begin_scores = [&](int t) {
    const u64 q_rows = operand(base + kAtQ + t % 2 * kQ);
    await(bars + 8 * (kQueries + t % 2), t / 2 & 1);
    begin_products();
#pragma unroll
    for (int k = 0; k < D / 16; ++k) multiply<0, 0>(sc, k_rows + depth(k, kPanelK), q_rows + depth(k, kPanelQ), k);
    end_products();
  };
  auto begin_dq = [&](float (&dq)[32], int t) {  // after both warpgroups have written dS of step t
    await(bars + 8 * (kScores + t % 2), t / 2 & 1);
    const u64 ds = operand(base + kAtS + t % 2 * kS + (D == 64 ? w * kPanelK : 0));
    begin_products();
#pragma unroll
    for (int k = 0; k < N / 16; ++k) multiply<1, 1>(dq, ds + k * (2048 >> 4), k_columns + k * (2048 >> 4), k);
    end_products();
  };
  auto end_dq = [&](float (&dq)[32], int t) {
    use(dq);
    show(kScoresRead, t % 2);
    if (t >= 2) await(bars + 8 * (kSumsSent + t % 2), (t / 2 & 1) ^ 1);
    const u32 to = base + kAtDq + t % 2 * kDq + w * (kDq / 2) + thread * 16;
#pragma unroll
    for (int i = 0; i < 8; ++i) put(to + i * 2048, dq[4 * i], dq[4 * i + 1], dq[4 * i + 2], dq[4 * i + 3]);
  };
  auto step = [&](int t, auto first_step, auto last_step) {
    const int s = t % 2;
    u32 weights[M / 4], ds[M / 4];
    {
      float dp[M / 2];
      const u32 lse_at = base + kAtRows + s * 8 * M + pair * 4, delta_at = lse_at + 4 * M;
      const u64 g_rows = operand(base + kAtG + s * kQ);
      await(bars + 8 * (kGrads + s), t / 2 & 1);
      begin_products();
#pragma unroll
      for (int k = 0; k < D / 16; ++k) multiply<0, 0>(dp, v_rows + depth(k, kPanelK), g_rows + depth(k, kPanelQ), k);
      end_products();
#pragma unroll
      for (int i = 0; i < M / 8; ++i) {
        const float2 lse = two_at(lse_at + 32 * i);
#pragma unroll
        for (int j = 0; j < 4; ++j) sc[4 * i + j] = power_of_2(fmaf(sc[4 * i + j], scale, j % 2 ? -lse.y : -lse.x));
      }
      if (t * M < 64 * w + 64) {  // on the diagonal
#pragma unroll
        for (int i = 0; i < M / 2; ++i)
          if (M * t + i / 4 * 8 + pair + i % 2 < 64 * w + row + i / 2 % 2 * 8) sc[i] = 0;
      }
      await_products<0>();
      use(dp);
#pragma unroll
      for (int i = 0; i < M / 8; ++i) {
        const float2 delta = two_at(delta_at + 32 * i);
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          const int at = 4 * i + 2 * j;
          weights[2 * i + j] = pack(sc[at], sc[at + 1]);
          ds[2 * i + j] = pack(sc[at] * (dp[at] - delta.x), sc[at + 1] * (dp[at + 1] - delta.y));
        }
      }
    }
    const u64 g_columns = operand(base + kAtG + s * kQ, kPanelQ), q_columns = operand(base + kAtQ + s * kQ, kPanelQ);
    begin_products();
#pragma unroll
    for (int k = 0; k < M / 16; ++k) multiply(dv, weights + 4 * k, g_columns + k * (2048 >> 4));
    end_products();
    if (t >= 2) await(bars + 8 * (kScoresRead + s), (t / 2 & 1) ^ 1);
#pragma unroll
    for (int k = 0; k < M / 16; ++k)
      put_matrices(s_at + s * kS + k / 4 * kPanelK + ((2 * (k % 4) + lane / 16) ^ s_swizzle) * 16, ds + 4 * k);
    begin_products();
#pragma unroll
    for (int k = 0; k < M / 16; ++k) multiply(dk, ds + 4 * k, q_columns + k * (2048 >> 4));
    end_products();
    fence_shared();
    __syncwarp();
    show(kScores, s);
    if (t >= 2) show(kSums + w, 2 * s);
    float dq[32];
    if constexpr (!first_step.value) begin_dq(dq, t - 1), await_products<1>();
    else await_products<0>();
    show(kQueriesRead, s), show(kGradsRead, s);
    if constexpr (!last_step.value) begin_scores(t + 1);
    if constexpr (!first_step.value) {
      if constexpr (!last_step.value) await_products<1>();
      else await_products<0>();
      end_dq(dq, t - 1);
    }
    if constexpr (!last_step.value) await_products<0>(), use(sc);
  };
  await(bars + 8 * kKeys, 0);
  begin_scores(0);
  await_products<0>();
  use(sc);
  const int last = tile.steps - 1;
  if (last == 0) {
    step(0, Yes{}, Yes{});
  } else {
    step(0, Yes{}, No{});
    for (int t = 1; t < last; ++t) step(t, No{}, No{});
    step(last, No{}, Yes{});
  }
  float dq[32];
  begin_dq(dq, last);
  fence_shared();
  __syncwarp();
  if (last) show(kSums + w, 2 * ((last - 1) % 2));
  await_products<0>();
  end_dq(dq, last);
  fence_shared();
  __syncwarp();
  show(kSums + w, 2 * (last % 2));
  // Both warpgroups are done with K, V, Q and dO: their places carry the sums out.
  asm volatile("bar.sync 1, 256;" ::: "memory");
  const u32 dk_at = base + kAtK + w * (64 * D * 4), dv_at = base + kAtQ + w * (64 * D * 4);
#pragma unroll
  for (int i = 0; i < D / 8; ++i) {
    put(dk_at + i * 2048 + thread * 16, dk[4 * i], dk[4 * i + 1], dk[4 * i + 2], dk[4 * i + 3]);
    put(dv_at + i * 2048 + thread * 16, dv[4 * i], dv[4 * i + 1], dv[4 * i + 2], dv[4 * i + 3]);
  }
  fence_shared();
  if (w == 0) asm volatile("bar.sync 2, 128;" ::: "memory");
  else asm volatile("bar.sync 3, 128;" ::: "memory");
  if (thread) return;
  const long long at = (((long long)tile.batch * p.kv_heads + tile.kv_head) * (p.tokens / N) + tile.keys) * 2 + w;
  if (tile.of_keys) await_turn(p.key_turns + at, tile.of_keys);
  send(p.dk + at * (64 * D), dk_at, 64 * D * 4, !tile.of_keys);
  send(p.dv + at * (64 * D), dv_at, 64 * D * 4, !tile.of_keys);
  sent();
  await_written();
  give_turn(p.key_turns + at, tile.of_keys + 1);
}
)";

const char* const kHopperTiles = R"(
extern "C" __global__ void __launch_bounds__(384, 1) sdpa_tiles(const __grid_constant__ Args p) {
  extern __shared__ __align__(1024) unsigned char memory[];
  const u32 base = shared_of(memory), bars = base + kAtBarriers;
  int* ticket = (int*)(memory + kAtTicket);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (base % 1024) __trap();
  if (threadIdx.x == 0) {
    *ticket = atomicAdd(p.ticket, 1);
    for (int i = 0; i < kBarriers; ++i) {  // one copy or thread; LANES of a warpgroup's warps, or of both's
      const bool by_one = i < kQueriesRead || (i >= kGrads && i < kGradsRead) || i >= kSumsSent;
      begin_barrier(bars + 8 * i, by_one ? 1 : LANES * (i >= kSums ? 4 : 8));
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    fence_shared();
  }
  __syncthreads();
  const Tile tile = tile_of(p, *ticket);
  if (warp < 4) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    if (warp == 0 && lane == 0) load(p, tile, base);
    if (warp >= 2 && lane == 0) send_sums(p, tile, base, warp - 2);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
    consume(p, tile, base, warp / 4 - 1);
  }
}
)";

}  // namespace

std::string hopper_attention_source(int64_t size, int lanes) {
  return str("#define LANES ", lanes, "\n", hopper_attention_instructions(size), kTile, kConsume,
             kHopperTiles, hopper_attention_ends());
}

std::vector<std::string> hopper_attention_flags() { return {"--device-as-default-execution-space"}; }

}  // namespace lockstep::compiler::cuda
