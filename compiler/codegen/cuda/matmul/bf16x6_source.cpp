// CUDA C++ of f32 products as six bf16 products on Hopper. Each operand is split into three bf16 numbers of 8
// bits each. Of their nine products, those that f32 precision could keep are computed: the first part with
// each, and the second with the second. (JAX calls it BF16_BF16_F32_X6; Henry, Tang, Heinecke, Leveraging the
// bfloat16 Artificial Intelligence Datatype for Higher-Precision Computations, 2019.)
// Tensor cores truncate in their additions, so long sums would shrink. Here each of their sums has 64 terms,
// smaller products first, and these sums are added in f32, rounded to nearest.
#include "compiler/codegen/cuda/matmul/bf16x6_tiles.h"
#include "compiler/codegen/cuda/source/hopper_instructions.h"
#include "core/base/error.h"

namespace lockstep::compiler::cuda {

namespace {
// The parts of a matrix [batch, rows, columns] as [batch, 3, rows, to_ld]. If the first part is not finite,
// the others are 0. Eight neighbours per thread; `wide`: there x is aligned to 16 bytes. The tickets of tiles
// start at 0.
const char* const kSplit = R"(
typedef unsigned int word;
static __device__ __forceinline__ void parts_of(float x, word* part) {
  float rest = x;
#pragma unroll
  for (int i = 0; i < 3; ++i) {
    part[i] = store_B(rest);
    const word size = part[i] & 0x7fff;
    if (size == 0x7f80 && (__float_as_uint(rest) & 0x7fffffff) < 0x7f800000) part[i] -= 1;  // rounded up to infinity
    rest = size > 0x7f80 || (__float_as_uint(rest) & 0x7fffffff) >= 0x7f800000 ? 0.f : rest - load_B((B_t)part[i]);
  }
}
extern "C" __global__ void __launch_bounds__(256) split_bf16x3(const float* x, B_t* parts, int rows, int columns,
    long long ld, long long stride, long long to_ld, int batch, int wide, int* ticket) {
  if (ticket && blockIdx.x == 0 && threadIdx.x == 0) *ticket = 0;
  const int across = (columns + 7) / 8;
  const long long first = blockIdx.x * 256ll + threadIdx.x, stride_of_grid = gridDim.x * 256ll, plane = rows * to_ld;
  const int on_rows = (int)(stride_of_grid / across), on_columns = (int)(stride_of_grid % across);
  long long row = first / across, b = row / rows;
  int place = (int)(first % across);
  for (row %= rows; b < batch;) {
    const int column = place * 8;
    const float* from = x + b * stride + row * ld + column;
    float v[8];
    if (wide && column + 8 <= columns) {
      const float4 low = ((const float4*)from)[0], high = ((const float4*)from)[1];
      v[0] = low.x, v[1] = low.y, v[2] = low.z, v[3] = low.w;
      v[4] = high.x, v[5] = high.y, v[6] = high.z, v[7] = high.w;
    } else {
#pragma unroll
      for (int j = 0; j < 8; ++j) v[j] = column + j < columns ? from[j] : 0.f;
    }
    word out[3][4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      word low[3], high[3];
      parts_of(v[2 * j], low), parts_of(v[2 * j + 1], high);
#pragma unroll
      for (int k = 0; k < 3; ++k) out[k][j] = low[k] | high[k] << 16;
    }
#pragma unroll
    for (int k = 0; k < 3; ++k)
      *(uint4*)(parts + (3 * b + k) * plane + row * to_ld + column) = uint4{out[k][0], out[k][1], out[k][2], out[k][3]};
    place += on_columns, row += on_rows;
    if (place >= across) place -= across, ++row;
    if (row >= rows) b += row / rows, row %= rows;
  }
}
)";

// d = the sum of the pieces, in their order, and the bias.
const char* const kSum = R"(
extern "C" __global__ void __launch_bounds__(256) sum_pieces(const float* pieces, float* d, const float* bias,
    long long piece, int count, long long n, long long ldd, long long rows, long long stride_d) {
  for (long long i = blockIdx.x * 256ll + threadIdx.x; i < piece; i += gridDim.x * 256ll) {
    float sum = pieces[i];
    for (int k = 1; k < count; ++k) sum += pieces[k * piece + i];
    const long long column = i % n, row = i / n % rows, b = i / n / rows;
    if (bias) sum += bias[column];
    d[b * stride_d + row * ldd + column] = sum;
  }
}
)";

// A block takes tiles of 128 x 128, 128 x 64 or 64 x 128 by tickets, because other kernels may occupy
// multiprocessors. Two consumer warpgroups own 64 rows each or, in tiles of 64 rows, 64 columns each. A stage
// has 64 terms of the summed dim: three parts of both operands. An operand whose rows run along the summed
// dim is stored in halves of 64 columns.
const char* const kProductTiles = R"(
constexpr int M = ROWS, N = COLUMNS, K = 64, kStages = STAGES, kColumns = M == 64 ? N / 2 : N;  // of a warpgroup
constexpr int kPartA = TURNED_A ? 8192 : 128 * M, kPartB = TURNED_B ? 8192 : 128 * N;
constexpr int kHalfA = TURNED_A ? 3 * kPartA : 8192, kHalfB = TURNED_B ? 3 * kPartB : 8192;
constexpr int kOperand = 3 * 128 * M, kStage = kOperand + 3 * 128 * N, kAtBarriers = kStages * kStage;
constexpr int kAtTickets = kAtBarriers + 8 * 2 * kStages;  // of each stage; -1: there are no more
static_assert(kAtTickets + 4 * kStages <= SHARED_BYTES, "");
struct Windows {
  int samples, counts_h, counts_w, stride_h, stride_w, lo_h, lo_w, dilation_h, dilation_w, sizes_w, places, blocks;
  int channels, mirrored;
};
struct Args {
  Map a, b;
  float* d;
  const float* bias;
  int* ticket;
  long long ldd, stride_d, piece;  // piece: numbers between pieces of sums
  int m, n, steps, steps_of_piece, tiles_m, tiles_n, batch, pieces, a_batched, b_batched;
  Windows windows;
};
static_assert(sizeof(Args) == ARGS_BYTES, "");
struct Tile { int m, n, batch, piece, first, steps; };
__device__ __forceinline__ int tiles_of(const Args& p) { return p.tiles_m * p.tiles_n * p.batch * p.pieces; }
// Eight rows of tiles side by side, so that a wave of blocks reads few rows and columns.
__device__ __forceinline__ Tile tile_of(const Args& p, int at) {
  const int tiles = p.tiles_m * p.tiles_n, within = at % tiles, outer = at / tiles;
  const int group = within / (8 * p.tiles_n), rows = min(8, p.tiles_m - 8 * group), i = within - 8 * group * p.tiles_n;
  const int piece = outer / p.batch, first = piece * p.steps_of_piece;
  const int steps = min(p.steps_of_piece, p.steps - first);
  return {(8 * group + i % rows) * M, i / rows * N, outer % p.batch, piece, first, steps};
}
// The parts that windows read at a place from number `window` on, of a block of 64 channels; planes of parts lie
// sample behind sample.
__device__ __forceinline__ void load_pixels(const Args& p, const Map* map, u32 to, int part_bytes, u32 full, int window,
    int at) {
  const Windows& w = p.windows;
  const int place = at / w.blocks, channel = at % w.blocks * 64, row = window / w.counts_w;
  const int x = window % w.counts_w * w.stride_w - w.lo_w, y = row % w.counts_h * w.stride_h - w.lo_h, sample = row / w.counts_h;
  const int right = place % w.sizes_w * w.dilation_w, down = place / w.sizes_w * w.dilation_h;
#pragma unroll
  for (int part = 0; part < 3; ++part)
    bring_pixels(to + part * part_bytes, map, full, channel, x, y, sample + part * w.samples, right, down);
}
// The operands of step `s`, terms K * s on.
__device__ __forceinline__ void load_a(const Args& p, const Tile& tile, int s, u32 to, u32 full) {
  const int batch = tile.batch * p.a_batched, k = s * K;
  if (PIXELS_A) {
    load_pixels(p, &p.a, to, kPartA, full, tile.m, s);
  } else if (TURNED_A) {
    bring_panel(to, &p.a, full, tile.m, k, 0, batch);
    if (M > 64) bring_panel(to + kHalfA, &p.a, full, tile.m + 64, k, 0, batch);
  } else {
    bring_panel(to, &p.a, full, k, tile.m, 0, batch);
  }
}
__device__ __forceinline__ void load_b(const Args& p, const Tile& tile, int s, u32 to, u32 full) {
  const int batch = tile.batch * p.b_batched, k = s * K;
  if (PIXELS_B) {  // of columns behind the last one nothing is written
    const int first = tile.n / 64, last = p.windows.places * p.windows.blocks - 1;
    load_pixels(p, &p.b, to, kPartB, full, k, first);
    if (N > 64) load_pixels(p, &p.b, to + kHalfB, kPartB, full, k, min(first + 1, last));
  } else if (PIXELS_A) {  // a weight
    const Windows& w = p.windows;
    const int at = s / w.blocks, place = w.mirrored ? w.places - 1 - at : at, channel = s % w.blocks * 64;
    if (TURNED_B) {
      bring_panel(to, &p.b, full, tile.n, place, channel, 0);
      if (N > 64) bring_panel(to + kHalfB, &p.b, full, tile.n + 64, place, channel, 0);
    } else {
      bring_panel(to, &p.b, full, channel, place, tile.n, 0);
    }
  } else if (TURNED_B) {
    bring_panel(to, &p.b, full, tile.n, k, 0, batch);
    if (N > 64) bring_panel(to + kHalfB, &p.b, full, tile.n + 64, k, 0, batch);
  } else {
    bring_panel(to, &p.b, full, k, tile.n, 0, batch);
  }
}
__device__ __forceinline__ void load(const Args& p, u32 base, int* tickets) {
  const u32 bars = base + kAtBarriers;
  int turn = 0;
  auto next_stage = [&](int at) {  // free, with the ticket of its tile
    const int stage = turn % kStages;
    if (turn >= kStages) await(bars + 8 * (kStages + stage), (turn / kStages & 1) ^ 1);
    tickets[stage] = at, ++turn;
    return stage;
  };
  for (int at = atomicAdd(p.ticket, 1); at < tiles_of(p); at = atomicAdd(p.ticket, 1)) {
    const Tile tile = tile_of(p, at);
    for (int s = 0; s < tile.steps; ++s) {
      const int stage = next_stage(at);
      const u32 here = base + stage * kStage, full = bars + 8 * stage;
      expect(full, kStage);
      load_a(p, tile, tile.first + s, here, full);
      load_b(p, tile, tile.first + s, here + kOperand, full);
    }
  }
  arrive(bars + 8 * next_stage(-1));
}
// The column of d that a column of sums is; -1: none. Of a weight's gradient each place has whole blocks of channels.
__device__ __forceinline__ int written(const Args& p, int column) {
  if (!PIXELS_B) return column < p.n ? column : -1;
  const Windows& w = p.windows;
  const int block = column / 64, place = block / w.blocks, channel = block % w.blocks * 64 + column % 64;
  return place < w.places && channel < w.channels ? place * w.channels + channel : -1;
}
__device__ __forceinline__ void write(const Args& p, const Tile& tile, float (&sums)[kColumns / 2], int w) {
  const int lane = threadIdx.x % 32, left = tile.n + (M == 64 ? 64 * w : 0);
  const int row = tile.m + (M == 64 ? 0 : 64 * w) + threadIdx.x % 128 / 32 * 16 + lane / 4;
  float* d = p.d + tile.piece * p.piece + tile.batch * p.stride_d;
  const bool pairs = (p.ldd | p.n) % 2 == 0 && (u64)d % 8 == 0;
#pragma unroll
  for (int j = 0; j < kColumns / 8; ++j) {
    const int column = written(p, left + 8 * j + 2 * (lane % 4));
    if (column < 0) continue;
    float bias[2] = {0, 0};
    if (p.bias) {
      bias[0] = p.bias[column];
      if (column + 1 < p.n) bias[1] = p.bias[column + 1];
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (row + 8 * i >= p.m) continue;
      float* to = d + (row + 8 * i) * p.ldd + column;
      const float x = sums[4 * j + 2 * i] + bias[0], y = sums[4 * j + 2 * i + 1] + bias[1];
      if (pairs) {
        *(float2*)to = make_float2(x, y);
      } else {
        to[0] = x;
        if (column + 1 < p.n) to[1] = y;
      }
    }
  }
}
// part = the sums of a stage's products, the least first.
__device__ __forceinline__ void multiply_stage(float (&part)[kColumns / 2], u64 a, u64 b) {
  begin_products();
#pragma unroll
  for (int pair = 0; pair < 6; ++pair) {
    const int of_a[] = {2, 1, 0, 1, 0, 0}, of_b[] = {0, 1, 2, 0, 1, 0};
#pragma unroll
    for (int k = 0; k < K / 16; ++k)
      multiply<TURNED_A, TURNED_B>(part, a + ((of_a[pair] * kPartA + k * (TURNED_A ? 2048 : 32)) >> 4),
                                   b + ((of_b[pair] * kPartB + k * (TURNED_B ? 2048 : 32)) >> 4), pair + k);
  }
  end_products();
  await_products<0>();
  use(part);
}
__device__ __forceinline__ void consume(const Args& p, u32 base, const int* tickets, int w) {
  const u32 bars = base + kAtBarriers;
  const int lane = threadIdx.x % 32;
  for (int turn = 0;;) {
    await(bars + 8 * (turn % kStages), turn / kStages & 1);
    int at = 0;  // who frees the stage is who reads its ticket: an arrival orders its own thread's reads alone
    if (lane == 0) at = tickets[turn % kStages];
    at = __shfl_sync(~0u, at, 0);
    if (at < 0) return;
    const int steps = tile_of(p, at).steps;
    float sums[kColumns / 2];
#pragma unroll
    for (int i = 0; i < kColumns / 2; ++i) sums[i] = 0;
    for (int s = 0; s < steps; ++s, ++turn) {
      const int stage = turn % kStages;
      const u32 here = base + stage * kStage;
      float part[kColumns / 2];
      await(bars + 8 * stage, turn / kStages & 1);
      multiply_stage(part, operand(here + (M == 64 ? 0 : w * kHalfA)),
                     operand(here + kOperand + (M == 64 ? w * kHalfB : 0), TURNED_B ? kHalfB : 16));
      if (lane == 0) arrive(bars + 8 * (kStages + stage));
#pragma unroll
      for (int i = 0; i < kColumns / 2; ++i) sums[i] += part[i];
    }
    write(p, tile_of(p, at), sums, w);
  }
}
extern "C" __global__ void __launch_bounds__(384, 1) bf16x6_tiles(const __grid_constant__ Args p) {
  extern __shared__ __align__(1024) unsigned char memory[];
  const u32 base = shared_of(memory), bars = base + kAtBarriers;
  int* tickets = (int*)(memory + kAtTickets);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (base % 1024) __trap();
  if (threadIdx.x == 0) {
    for (int i = 0; i < 2 * kStages; ++i) begin_barrier(bars + 8 * i, i < kStages ? 1 : 8);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    fence_shared();
  }
  __syncthreads();
  if (warp < 4) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (warp == 0 && lane == 0) load(p, base, tickets);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    consume(p, base, tickets, warp / 4 - 1);
  }
}
)";
}  // namespace

std::string bf16x6_split_source() { return element_text("B", DType::bf16) + kSplit + kSum; }
std::string bf16x6_tiles_source(const TileForm& form) {
  auto define = [](const char* name, bool value) { return str("#define ", name, " ", value ? 1 : 0, "\n"); };
  return str(define("TURNED_A", form.a_turned), define("TURNED_B", form.b_turned),
             define("PIXELS_A", form.pixels == TileForm::Pixels::a),
             define("PIXELS_B", form.pixels == TileForm::Pixels::b), "#define ROWS ", form.rows,
             "\n#define COLUMNS ", form.columns, "\n#define STAGES ", form.stages(), "\n#define ARGS_BYTES ",
             kTileArgsBytes, "\n#define SHARED_BYTES ", form.shared_bytes(), "\n", hopper_instructions(),
             hopper_product(form.rows == 64 ? form.columns / 2 : form.columns, false), kProductTiles);
}

}  // namespace lockstep::compiler::cuda
