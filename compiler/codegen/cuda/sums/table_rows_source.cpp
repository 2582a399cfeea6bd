// CUDA C++ for sparse tables: sorted ids are numbered, 16 threads add the rows of an id in their order, and
// rows are written to their places. The only atomics are integer counters in shared memory, whose result does
// not depend on order.
#include "compiler/codegen/cuda/library/library.h"
#include "compiler/codegen/cuda/sums/table_rows.h"
#include "core/base/text.h"

namespace lockstep::compiler::cuda {

namespace {
constexpr const char* kNumber = R"(
// The sum of `value` over the threads of the block before this one; over all of them in `all`.
static __device__ u32 sum_before(u32 value, u32* warps, u32& all) {
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  u32 inclusive = value;
  for (int d = 1; d < 32; d *= 2) {
    u32 other = __shfl_up_sync(FULL, inclusive, d);
    if (lane >= d) inclusive += other;
  }
  if (lane == 31) warps[warp] = inclusive;
  __syncthreads();
  u32 before = inclusive - value;
  all = 0;
  for (int w = 0; w < (int)(blockDim.x >> 5); ++w) {
    if (w < warp) before += warps[w];
    all += warps[w];
  }
  __syncthreads();
  return before;
}

// Where the keys of [begin, end) that differ from those before them stand: starts[number] of each, which begin at `count`; returns the
// number behind them. found[1]: how many ids are in the table; the first other one is told.
static __device__ u32 number_heads(const int* ids, const u32* keys, const int* places, int n, u32 rows, int begin, int end, u32 count, int* starts,
                                   int* found, StrayId* stray, u32* warps) {
  for (int base = begin; base < end; base += blockDim.x) {
    int j = base + threadIdx.x;
    bool head = false;
    if (j < end) {
      u32 key = keys[j], last = j > 0 ? keys[j - 1] : 0;
      head = key < rows && (j == 0 || last != key);
      if (key >= rows && (j == 0 || last < rows)) {
        found[1] = j;
        if (stray->number == 0) {
          stray->id = ids[places[j]];
          stray->rows = rows;
          stray->number = places[j] + 1;
        }
      }
      if (key < rows && j == n - 1) found[1] = n;
    }
    u32 all, at = count + sum_before(head, warps, all);
    if (head) starts[at] = j;
    count += all;
  }
  return count;
}
static __device__ u32 count_heads(const u32* keys, u32 rows, int begin, int end, u32* warps) {
  u32 count = 0, all;
  for (int j = begin + threadIdx.x; j < end; j += blockDim.x) count += keys[j] < rows && (j == 0 || keys[j - 1] != keys[j]);
  sum_before(count, warps, all);
  return all;
}

// The whole of it for few ids: each of 32 warps sorts a part.
extern "C" __global__ void __launch_bounds__(1024) sort_in_block(const int* ids, int n, u32 rows, int passes, u32* keys_a, u32* keys_b, int* places_a,
                                                                 int* places_b, int* starts, int* found, StrayId* stray) {
  __shared__ u32 next[32][256];
  __shared__ u32 warps[32];
  int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, digit = threadIdx.x;
  int each = (n + 1023) / 1024 * 32, begin = warp * each, end = begin + each < n ? begin + each : n;
  const u32* keys = 0;
  const int* places = 0;
  for (int pass = 0; pass < passes; ++pass) {
    int shift = 8 * pass;
    u32* keys_out = pass & 1 ? keys_b : keys_a;
    int* places_out = pass & 1 ? places_b : places_a;
    for (int i = threadIdx.x; i < 32 * 256; i += 1024) next[i >> 8][i & 255] = 0;
    __syncthreads();
    for (int i = begin + lane; i < end; i += 32) atomicAdd(&next[warp][(key_at(ids, keys, i, rows) >> shift) & 255], 1u);
    __syncthreads();
    u32 sum = 0, all;
    if (digit < 256)
      for (int w = 0; w < 32; ++w) sum += next[w][digit];
    u32 at = sum_before(sum, warps, all);
    if (digit < 256)
      for (int w = 0; w < 32; ++w) {
        u32 count = next[w][digit];
        next[w][digit] = at;
        at += count;
      }
    __syncthreads();
    for (int base = begin; base < end; base += 32)
      scatter_32(ids, keys, places, base + lane, end, rows, shift, next[warp], keys_out, places_out);
    __syncthreads();
    keys = keys_out;
    places = places_out;
  }
  u32 count = number_heads(ids, keys, places, n, rows, 0, n, 0, starts, found, stray, warps);
  if (threadIdx.x == 0) {
    found[0] = (int)count;
    starts[count] = n;
  }
}

// For many: heads per block, which `scan` adds up, and then their numbers.
extern "C" __global__ void __launch_bounds__(1024) heads(const u32* keys, int n, u32 rows, u32* totals) {
  __shared__ u32 warps[32];
  int begin = blockIdx.x * CHUNK, end = begin + CHUNK < n ? begin + CHUNK : n;
  u32 count = count_heads(keys, rows, begin, end, warps);
  if (threadIdx.x == 0) totals[blockIdx.x] = count;
}
extern "C" __global__ void __launch_bounds__(1024) number(const int* ids, const u32* keys, const int* places, int n, u32 rows, const u32* totals,
                                                          int* starts, int* found, StrayId* stray) {
  __shared__ u32 warps[32];
  int begin = blockIdx.x * CHUNK, end = begin + CHUNK < n ? begin + CHUNK : n;
  u32 count = number_heads(ids, keys, places, n, rows, begin, end, totals[blockIdx.x], starts, found, stray, warps);
  if (end < n || threadIdx.x > 0) return;
  found[0] = (int)count;
  starts[count] = n;
}
)";

constexpr const char* kTableRows = R"(
// 16 threads for a distinct id: each adds U columns of its rows, in the order of their places; up to 16 U loads are in flight. Squares go to 16
// accumulators, which are added by halves, in blocks of 2048 columns: the CPU's order.
template <int U>
static __device__ void sum_of_id(const u32* keys, const int* places, int n, const int* starts, const int* found, const float* rows_in, long long width,
                                 int* out_ids, float* out_rows, double* squares) {
  long long k = blockIdx.x * 16LL + (threadIdx.x >> 4);
  if (found[1] < n || k >= found[0]) return;
  int lane = threadIdx.x & 15;
  u32 mask = 0xffffu << (threadIdx.x & 16);
  int from = starts[k], to = starts[k + 1];
  double total = 0, part = 0;
  for (long long column = 0; column < width; column += 16 * U) {
    float sum[U];
#pragma unroll
    for (int u = 0; u < U; ++u) sum[u] = -0.0f;  // the first row is taken as it is
    int ahead = from + lane < to ? places[from + lane] : 0;
    for (int base = from; base < to; base += 16) {
      int mine = ahead, count = to - base < 16 ? to - base : 16;
      ahead = base + 16 + lane < to ? places[base + 16 + lane] : 0;
      float got[16][U];
#pragma unroll
      for (int t = 0; t < 16; ++t) {
        long long at = __shfl_sync(mask, mine, t, 16) * width + column + lane;
#pragma unroll
        for (int u = 0; u < U; ++u)
          if (t < count && column + lane + 16 * u < width) got[t][u] = rows_in[at + 16 * u];
      }
#pragma unroll
      for (int t = 0; t < 16; ++t)
#pragma unroll
        for (int u = 0; u < U; ++u)
          if (t < count && column + lane + 16 * u < width) sum[u] += got[t][u];
    }
#pragma unroll
    for (int u = 0; u < U; ++u)
      if (column + lane + 16 * u < width) {
        out_rows[k * width + column + lane + 16 * u] = sum[u];
        part += (double)sum[u] * (double)sum[u];
      }
    if ((column + 16 * U) % 2048 == 0 || column + 16 * U >= width) {
      for (int d = 8; d > 0; d /= 2) part += __shfl_xor_sync(mask, part, d);
      total += part;
      part = 0;
    }
  }
  if (lane > 0) return;
  out_ids[k] = (int)keys[from];
  squares[k] = total;
}
#define SUM_ROWS(U)                                                                                                                          \
  extern "C" __global__ void __launch_bounds__(kThreads) sum_rows_##U(const u32* keys, const int* places, int n, const int* starts,          \
                                                                      const int* found, const float* rows_in, long long width, int* out_ids, \
                                                                      float* out_rows, double* squares) {                                    \
    sum_of_id<U>(keys, places, n, starts, found, rows_in, width, out_ids, out_rows, squares);                                                \
  }
SUM_ROWS(1)
SUM_ROWS(2)
SUM_ROWS(4)

// What is left of n rows: the last id's; where an id is outside of the table no row is one.
extern "C" __global__ void __launch_bounds__(kThreads) fill_rows(const u32* keys, int n, const int* found, long long width, int* out_ids,
                                                                 float* out_rows, double* squares) {
  long long k = blockIdx.x * 16LL + (threadIdx.x >> 4);
  int lane = threadIdx.x & 15;
  bool bad = found[1] < n;
  if (k >= n || (k < found[0] && !bad)) return;
  for (long long c = lane; c < width; c += 16) out_rows[k * width + c] = bad ? 0.0f : out_rows[(found[0] - 1) * width + c];
  if (lane > 0) return;
  out_ids[k] = bad ? -1 : (int)keys[n - 1];
  squares[k] = bad ? (double)__int_as_float(0x7fc00000) : 0.0;
}

static __device__ float of_half(unsigned short x) {
  int exponent = x >> 10 & 31, fraction = x & 1023;
  float value = exponent == 31 ? __int_as_float(fraction ? 0x7fc00000 : 0x7f800000)
                : exponent     ? ldexpf((float)(1024 + fraction), exponent - 25)
                               : ldexpf((float)fraction, -24);
  return x >> 15 ? -value : value;
}
static __device__ float gate_value(const GateEntry& gate) {
  if (gate.kind == kGateF64) return (float)*(const double*)gate.value;
  if (gate.kind == kGateBf16) return __int_as_float((int)*(const unsigned short*)gate.value << 16);
  if (gate.kind == kGateF16) return of_half(*(const unsigned short*)gate.value);
  return *(const float*)gate.value;
}
extern "C" __global__ void __launch_bounds__(kThreads) put_rows(float* table, const int* ids, const float* rows, long long n, long long width,
                                                                long long table_rows, const __grid_constant__ GateTable gates) {
  long long k = blockIdx.x * 16LL + (threadIdx.x >> 4);
  if (k >= n) return;
  int id = ids[k];
  if (id < 0 || id >= table_rows || (k > 0 && ids[k - 1] == id)) return;
  for (int g = 0; g < gates.entries; ++g)
    if (!(gate_value(gates.entry[g]) <= *gates.entry[g].limit && gate_value(gates.entry[g]) >= -3.40282347e38f)) return;
  for (long long c = threadIdx.x & 15; c < width; c += 16) table[id * width + c] = rows[k * width + c];
}
)";
}  // namespace

std::string table_rows_source() {
  return str(kReductionTables, "\n", row_sort_source(), kNumber, kTableRows);
}

}  // namespace lockstep::compiler::cuda
