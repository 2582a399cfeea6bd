// CUDA C++ of row sums: a stable sort of the indices, 8 bits at a time, then one warp per row and slice of
// columns. The only atomics are integer counters in shared memory, whose result does not depend on order.
#include "compiler/codegen/cuda/library/library.h"
#include "compiler/codegen/cuda/source/module.h"
#include "core/base/text.h"

namespace lockstep::compiler::cuda {

namespace {
constexpr const char* kSort = R"(
typedef unsigned u32;
#define FULL 0xffffffffu
#define CHUNK 2048  // indices per block: 8 warps of 8 times 32

// An id outside the table becomes `rows`, which sorts behind all.
static __device__ __forceinline__ u32 key_at(const int* ids, const u32* keys, int i, u32 rows) {
  if (keys) return keys[i];
  int id = ids[i];
  return id >= 0 && (u32)id < rows ? (u32)id : rows;
}
static __device__ void count_digits(u32 (*counts)[256], const int* ids, const u32* keys, int n, u32 rows, int shift) {
  for (int i = threadIdx.x; i < 8 * 256; i += 256) counts[i >> 8][i & 255] = 0;
  __syncthreads();
  int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  int from = blockIdx.x * CHUNK + warp * 256 + lane;
  for (int t = 0; t < 8; ++t) {
    int i = from + t * 32;
    if (i < n) atomicAdd(&counts[warp][(key_at(ids, keys, i, rows) >> shift) & 255], 1u);
  }
  __syncthreads();
}

// totals[digit * blocks + block]; and clears the runs.
extern "C" __global__ void digits(const int* ids, const u32* keys, int n, u32 rows, int shift, u32* totals, int* runs, long long clear) {
  __shared__ u32 counts[8][256];
  for (long long i = blockIdx.x * 256LL + threadIdx.x; i < clear; i += gridDim.x * 256LL) runs[i] = 0;
  count_digits(counts, ids, keys, n, rows, shift);
  u32 sum = 0;
  for (int w = 0; w < 8; ++w) sum += counts[w][threadIdx.x];
  totals[(long long)threadIdx.x * gridDim.x + blockIdx.x] = sum;
}

// Exclusive prefix sums in place: one block of 1024 threads, 4 values each at a time.
extern "C" __global__ void scan(u32* totals, long long count) {
  __shared__ u32 warps[32];
  u32 carry = 0;
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  for (long long base = 0; base < count; base += 4096) {
    u32 own[4], sum = 0;
    long long at = base + threadIdx.x * 4LL;
    for (int i = 0; i < 4; ++i) {
      u32 value = at + i < count ? totals[at + i] : 0;
      own[i] = sum;
      sum += value;
    }
    u32 inclusive = sum;
    for (int d = 1; d < 32; d *= 2) {
      u32 other = __shfl_up_sync(FULL, inclusive, d);
      if (lane >= d) inclusive += other;
    }
    if (lane == 31) warps[warp] = inclusive;
    __syncthreads();
    if (warp == 0) {
      u32 value = warps[lane], all = value;
      for (int d = 1; d < 32; d *= 2) {
        u32 other = __shfl_up_sync(FULL, all, d);
        if (lane >= d) all += other;
      }
      warps[lane] = all;
    }
    __syncthreads();
    u32 before = carry + (warp ? warps[warp - 1] : 0) + inclusive - sum;
    carry += warps[31];
    for (int i = 0; i < 4; ++i)
      if (at + i < count) totals[at + i] = before + own[i];
    __syncthreads();
  }
}

// A warp moves 32 neighbours to their places: next[digit] is the first free one of a digit, of this warp.
static __device__ __forceinline__ void scatter_32(const int* ids, const u32* keys, const int* places, int i, int end, u32 rows, int shift,
                                                  u32* next, u32* keys_out, int* places_out) {
  int lane = threadIdx.x & 31;
  u32 active = __ballot_sync(FULL, i < end);
  u32 same = 0, digit = 0;
  if (i < end) {
    u32 key = key_at(ids, keys, i, rows);
    digit = (key >> shift) & 255;
    same = __match_any_sync(active, digit);
    u32 to = next[digit] + __popc(same & ((1u << lane) - 1));
    keys_out[to] = key;
    places_out[to] = places ? places[i] : i;
  }
  __syncwarp();
  if (i < end && lane == __ffs(same) - 1) next[digit] += __popc(same);
  __syncwarp();
}

extern "C" __global__ void scatter(const int* ids, const u32* keys, const int* places, int n, u32 rows, int shift, const u32* totals,
                                   u32* keys_out, int* places_out) {
  __shared__ u32 next[8][256];
  count_digits(next, ids, keys, n, rows, shift);
  u32 at = totals[(long long)threadIdx.x * gridDim.x + blockIdx.x];
  for (int w = 0; w < 8; ++w) {
    u32 count = next[w][threadIdx.x];
    next[w][threadIdx.x] = at;
    at += count;
  }
  __syncthreads();
  int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  int from = blockIdx.x * CHUNK + warp * 256 + lane;
  for (int t = 0; t < 8; ++t) scatter_32(ids, keys, places, from + t * 32, n, rows, shift, next[warp], keys_out, places_out);
}

// runs[row], runs[rows + row]: from where to where a row's indices stand in sorted order; both 0 for a row without any.
extern "C" __global__ void bounds(const u32* keys, int n, u32 rows, int* runs) {
  int j = blockIdx.x * 256 + threadIdx.x;
  if (j >= n) return;
  u32 key = keys[j];
  if (key >= rows) return;
  if (j == 0 || keys[j - 1] != key) runs[key] = j;
  if (j == n - 1 || keys[j + 1] != key) runs[(long long)rows + key] = j + 1;
}
)";

constexpr const char* kSums = R"(
template <class E, int V>
struct alignas(sizeof(E) * V) Pack {
  E v[V];
};

// sum += the rows at places[from, to), in order; 8 loads in flight.
template <int V>
static __device__ __forceinline__ void add_rows(Sum (&sum)[V], const T_t* rows, const int* places, int from, int to, long long width,
                                                long long column, bool inside, int lane) {
  for (int base = from; base < to; base += 32) {
    int mine = base + lane < to ? places[base + lane] : 0;
    int count = to - base < 32 ? to - base : 32;
    for (int t = 0; t < count; t += 8) {
      Pack<T_t, V> got[8];
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        int place = __shfl_sync(FULL, mine, (t + i) & 31);
        if (inside && t + i < count) got[i] = *(const Pack<T_t, V>*)(rows + place * width + column);
      }
#pragma unroll
      for (int i = 0; i < 8; ++i)
        if (inside && t + i < count) {
#pragma unroll
          for (int c = 0; c < V; ++c) sum[c] += load_T(got[i].v[c]);
        }
    }
  }
}

// Runs of more than PIECE: partial sums of their pieces. In a window of PIECE sorted places at most one such run begins and at most one
// goes on with a new piece, so the two slots of a window are enough.
template <int V>
static __device__ void sum_pieces(const T_t* rows_in, const u32* keys, const int* places, int n, u32 rows, const int* runs, long long width,
                                  long long slices, Sum* partials) {
  long long task = (blockIdx.x * (long long)blockDim.x + threadIdx.x) >> 5;
  int lane = threadIdx.x & 31;
  long long slot = task / slices;
  long long column = (task % slices * 32 + lane) * V;
  if ((slot >> 1) * PIECE >= n) return;
  int head = -1, end = 0;
  for (int half = 0; half < PIECE; half += 32) {
    int j = (int)((slot >> 1) * PIECE) + half + lane, last = 0;
    bool found = false;
    if (j < n) {
      u32 key = keys[j];
      if (key < rows) {
        int start = runs[key];
        last = runs[(long long)rows + key];
        found = last - start > PIECE && (j - start) % PIECE == 0 && (j == start) == (bool)(slot & 1);
      }
    }
    u32 mask = __ballot_sync(FULL, found);
    if (mask) {
      int from = __ffs(mask) - 1;
      head = __shfl_sync(FULL, j, from);
      end = __shfl_sync(FULL, last, from);
    }
  }
  if (head < 0) return;
  Sum sum[V];
  for (int c = 0; c < V; ++c) sum[c] = 0;
  bool inside = column < width;
  add_rows<V>(sum, rows_in, places, head, end < head + PIECE ? end : head + PIECE, width, column, inside, lane);
  if (inside)
    for (int c = 0; c < V; ++c) partials[slot * width + column + c] = sum[c];
}

template <int V>
static __device__ void sum_rows(const T_t* rows_in, const int* places, u32 rows, const int* runs, long long width, long long slices,
                                const Sum* partials, T_t* out) {
  long long task = (blockIdx.x * (long long)blockDim.x + threadIdx.x) >> 5;
  int lane = threadIdx.x & 31;
  long long row = task / slices;
  if (row >= rows) return;
  long long column = (task % slices * 32 + lane) * V;
  bool inside = column < width;
  int from = runs[row], to = runs[(long long)rows + row];
  Sum sum[V];
  for (int c = 0; c < V; ++c) sum[c] = 0;
  if (to - from <= PIECE) {
    add_rows<V>(sum, rows_in, places, from, to, width, column, inside, lane);
  } else if (inside) {
    int pieces = (to - from + PIECE - 1) / PIECE;
    for (int p = 0; p < pieces; p += 8) {
      Pack<Sum, V> got[8];
#pragma unroll
      for (int i = 0; i < 8; ++i)
        if (p + i < pieces) {
          long long slot = 2LL * ((from + (p + i) * PIECE) / PIECE) + (p + i == 0);
#pragma unroll
          for (int c = 0; c < V; ++c) got[i].v[c] = partials[slot * width + column + c];
        }
#pragma unroll
      for (int i = 0; i < 8; ++i)
        if (p + i < pieces) {
#pragma unroll
          for (int c = 0; c < V; ++c) sum[c] += got[i].v[c];
        }
    }
  }
  if (!inside) return;
  Pack<T_t, V> result;
  for (int c = 0; c < V; ++c) result.v[c] = store_T(sum[c]);
  *(Pack<T_t, V>*)(out + row * width + column) = result;
}

#define KERNELS(suffix, V)                                                                                                              \
  extern "C" __global__ void pieces_##suffix(const T_t* rows_in, const u32* keys, const int* places, int n, u32 rows, const int* runs, \
                                             long long width, long long slices, Sum* partials) {                                       \
    sum_pieces<V>(rows_in, keys, places, n, rows, runs, width, slices, partials);                                                      \
  }                                                                                                                                     \
  extern "C" __global__ void rows_##suffix(const T_t* rows_in, const int* places, u32 rows, const int* runs, long long width,          \
                                           long long slices, const Sum* partials, T_t* out) {                                          \
    sum_rows<V>(rows_in, places, rows, runs, width, slices, partials, out);                                                            \
  }
KERNELS(one, 1)
KERNELS(wide, (int)(16 / sizeof(T_t)))
)";
}  // namespace

std::string row_sort_source() { return kSort; }

std::string row_sums_source(DType dtype) {
  return str(element_text("T", dtype), "typedef ", sum_type(dtype), " Sum;\n#define PIECE ", kRowPiece, "\n",
             kSort, kSums);
}

}  // namespace lockstep::compiler::cuda
