// CUDA C++ of tiles on tensor cores, which read operands as TF32: loads, products and stores. The mapping of
// matrix elements to lanes is that of PTX's mma.m16n8k8. PARTS 2: operands are f32, each the sum of two TF32
// numbers (as in CUTLASS's OpMultiplyAddFastF32); the sum over a tile is added to the running sums in f32.
#include "compiler/codegen/cuda/attention/attention.h"

namespace lockstep::compiler::cuda {

namespace {
const char* const kTensorCores = R"(
#ifndef TENSOR_CORES
// c += a b, of 16 x 8 and 8 x 8. Of each operand 10 bits of mantissa are read, and the rest is cut off.
__device__ __forceinline__ static void multiply(float (&c)[4], const float (&a)[4], float b0, float b1) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(__float_as_uint(a[0])), "r"(__float_as_uint(a[1])), "r"(__float_as_uint(a[2])),
        "r"(__float_as_uint(a[3])), "r"(__float_as_uint(b0)), "r"(__float_as_uint(b1)));
}
__device__ __forceinline__ static float power_of_2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// 16 bytes on their way, or zeros.
__device__ __forceinline__ static void copy16(void* to, const void* from, bool there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from), "r"(there ? 16 : 0) : "memory");
}
__device__ __forceinline__ static void wait_for_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }
#endif
)";

// Lane 4 g + t has rows g and g + 8 of a warp's 16. Its columns are:
//   - of the inner dim of scores: 4 t to 4 t + 3 of each 16;
//   - of a tile's columns: t and 4 + (t ^ 2) of each 8, the layout both of the result of a product of scores
//     and of the operand of the next product;
//   - of results: 8 t to 8 t + 7 of each 32.
// PITCH is 8 more than a multiple of 32, so that every read is of 16 bytes, from banks that no other lane
// reads at that time.
const char* const kTensorTiles = R"(
#define PITCH (DP + 8)
#define KD (DP / 8)
#define NT (N / 8)
#define LOG2E 1.44269504088896341f
#define LN2 0.69314718055994531f
#define STAGE (2 * N * PITCH)

struct alignas(4 * sizeof(Stored)) Four { Stored x[4]; };
struct alignas(16) FourSums { float x[4]; };
__device__ __forceinline__ static void take(const float* from, float* to, bool there) { copy16(to, from, there); }
__device__ __forceinline__ static void take(const unsigned short* from, float* to, bool there) {
  FourSums out = {};
  if (there) {
    const Four four = *(const Four*)from;
#pragma unroll
    for (int j = 0; j < 4; ++j) out.x[j] = load(four.x[j]);
  }
  *(FourSums*)to = out;
}
// Rows [first, first + COUNT) of a matrix, zeros from `limit` on; they are there after wait_for_copies and a barrier.
template <int COUNT>
__device__ __forceinline__ static void fill(float* to, const Stored* from, long long token, int first, int limit) {
  constexpr int across = DP / 4, step = THREADS / across;  // of threads beside one another, and of rows
  const int d = threadIdx.x % across * 4;
  int row = threadIdx.x / across;
  if (THREADS % across && row >= step) return;
  const Stored* at = from + (long long)(first + row) * token + d;
  to += row * PITCH + d;
  limit = d < D ? limit - first : 0;
#pragma unroll
  for (int i = 0; i < (COUNT + step - 1) / step; ++i, row += step, at += step * token, to += step * PITCH)
    if (COUNT % step == 0 || row < COUNT) take(at, to, row < limit);
}
__device__ __forceinline__ static void arrive() {
  wait_for_copies();
  __syncthreads();
}

// A number as products read it: in PARTS 2 the nearest TF32 number, and what is left of it.
struct Number { float x[PARTS]; };
__device__ __forceinline__ static Number number(float x) {
  Number out;
#if PARTS == 1
  out.x[0] = x;
#else
  out.x[0] = __uint_as_float((__float_as_uint(x) + 0x1000u) & 0xffffe000u), out.x[1] = x - out.x[0];
#endif
  return out;
}
struct Fragment { float x[PARTS][4]; };
__device__ __forceinline__ static Fragment fragment(const float (&x)[4]) {
  Fragment out;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const Number each = number(x[i]);
#pragma unroll
    for (int p = 0; p < PARTS; ++p) out.x[p][i] = each.x[p];
  }
  return out;
}
// The product of two rests is below 2^-22 of the whole, and left out.
__device__ __forceinline__ static void add_product(float (&c)[4], const Fragment& a, const Number& b0, const Number& b1) {
#if PARTS == 2
  multiply(c, a.x[1], b0.x[0], b1.x[0]);
  multiply(c, a.x[0], b0.x[1], b1.x[1]);
#endif
  multiply(c, a.x[0], b0.x[0], b1.x[0]);
}

// Left operands of a warp's rows, of a tile: kept in registers, or read again for each product.
template <int M>
struct Left {
#if HELD
  float a[M][KD][4];
  __device__ __forceinline__ void hold(const float* tile) {
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
      for (int k = 0; k < KD; k += 2) read(a[m][k], a[m][k + 1], tile + 16 * m * PITCH, k);
  }
  __device__ __forceinline__ void get(float (&x)[4], float (&y)[4], int m, int k) const {
#pragma unroll
    for (int j = 0; j < 4; ++j) x[j] = a[m][k][j], y[j] = a[m][k + 1][j];
  }
#else
  const float* tile;
  __device__ __forceinline__ void hold(const float* of) { tile = of; }
  __device__ __forceinline__ void get(float (&x)[4], float (&y)[4], int m, int k) const {
    read(x, y, tile + 16 * m * PITCH, k);
  }
#endif
  __device__ __forceinline__ static void read(float (&x)[4], float (&y)[4], const float* tile, int k) {
    const float* at = tile + (threadIdx.x % 32 / 4) * PITCH + 8 * k + threadIdx.x % 4 * 4;
    const FourSums low = *(const FourSums*)at, high = *(const FourSums*)(at + 8 * PITCH);
    x[0] = low.x[0], x[2] = low.x[1], y[0] = low.x[2], y[2] = low.x[3];
    x[1] = high.x[0], x[3] = high.x[1], y[1] = high.x[2], y[3] = high.x[3];
  }
};

// s[row][column] = sum over d of left[row][d] right[column][d], N columns
template <int M>
__device__ __forceinline__ static void products(float (&s)[M][NT][4], const Left<M>& left, const float* right) {
  const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  const float* at = right + (g % 2 ? 4 + (g / 2 ^ 2) : g / 2) * PITCH + 4 * t;
#pragma unroll
  for (int m = 0; m < M; ++m)
#pragma unroll
    for (int n = 0; n < NT; ++n)
#pragma unroll
      for (int j = 0; j < 4; ++j) s[m][n][j] = 0;
#pragma unroll
  for (int k = 0; k < KD; k += 2) {
    Fragment a[M][2];
#pragma unroll
    for (int m = 0; m < M; ++m) {
      float x[4], y[4];
      left.get(x, y, m, k);
      a[m][0] = fragment(x), a[m][1] = fragment(y);
    }
#pragma unroll
    for (int n = 0; n < NT; ++n) {
      const FourSums b = *(const FourSums*)(at + 8 * n * PITCH + 8 * k);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const Number b0 = number(b.x[2 * i]), b1 = number(b.x[2 * i + 1]);
#pragma unroll
        for (int m = 0; m < M; ++m) add_product(s[m][n], a[m][i], b0, b1);
      }
    }
  }
}
// sum[row][d] += sum over columns n of w[row][n] right[n][d]
template <int M>
__device__ __forceinline__ static void add_rows(float (&sum)[M][KD][4], const float (&w)[M][NT][4], const float* right) {
  const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  const float *low = right + t * PITCH + 4 * g, *high = right + (4 + (t ^ 2)) * PITCH + 4 * g;
#pragma unroll
  for (int k = 0; k < KD; k += 4) {
    float part[M][4][4];  // of a tile, where sums in the matrix unit are too coarse for f32
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
      for (int j = 0; j < 4; ++j)
#pragma unroll
        for (int i = 0; i < 4; ++i) part[m][j][i] = PARTS == 1 ? sum[m][k + j][i] : 0.0f;
#pragma unroll
    for (int n = 0; n < NT; ++n) {
      Fragment a[M];
#pragma unroll
      for (int m = 0; m < M; ++m) {
        const float x[4] = {w[m][n][0], w[m][n][2], w[m][n][1], w[m][n][3]};
        a[m] = fragment(x);
      }
      const FourSums b0 = *(const FourSums*)(low + 8 * n * PITCH + 8 * k),
                     b1 = *(const FourSums*)(high + 8 * n * PITCH + 8 * k);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const Number x0 = number(b0.x[j]), x1 = number(b1.x[j]);
#pragma unroll
        for (int m = 0; m < M; ++m) add_product(part[m][j], a[m], x0, x1);
      }
    }
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
      for (int j = 0; j < 4; ++j)
#pragma unroll
        for (int i = 0; i < 4; ++i) sum[m][k + j][i] = PARTS == 1 ? part[m][j][i] : sum[m][k + j][i] + part[m][j][i];
  }
}
// The column of a tile that a lane's j-th number of s[m][n] is of.
__device__ __forceinline__ static int column_of(int n, int j) {
  const int t = threadIdx.x % 4;
  return 8 * n + (j % 2 ? 4 + (t ^ 2) : t);
}
template <int M>
__device__ __forceinline__ static void clear(float (&sum)[M][KD][4]) {
#pragma unroll
  for (int m = 0; m < M; ++m)
#pragma unroll
    for (int k = 0; k < KD; ++k)
#pragma unroll
      for (int j = 0; j < 4; ++j) sum[m][k][j] = 0;
}
// Of 16 rows from `first`, those before `limit`, each times its factor.
__device__ __forceinline__ static void store_rows(Stored* to, long long token, const float (&sum)[KD][4], int first,
                                                  int limit, float low, float high) {
  const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = first + 8 * half + g;
    if (row >= limit) continue;
#pragma unroll
    for (int k = 0; k < KD; k += 4)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int d = 8 * k + 8 * t + 4 * i;
        Four out;
#pragma unroll
        for (int j = 0; j < 4; ++j) out.x[j] = store(sum[k + j][2 * half + i] * (half ? high : low));
        if (d < D) *(Four*)(to + (long long)row * token + d) = out;
      }
  }
}
// Over the four lanes of a row.
__device__ __forceinline__ static float quad_sum(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}
__device__ __forceinline__ static float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}
// Whether rows from q0 see all of `keys` keys from k0: nothing is asked of them one by one then.
__device__ __forceinline__ static bool all_seen(const Args& a, int q0, int k0, int keys) {
  return !MASKED && k0 + keys <= a.keys && (!CAUSAL || k0 + keys - 1 <= q0);
}
// Keys [first, last) of which `rows` rows from q0 may see some, in whole tiles from `first`.
__device__ static int first_key(int q0) { return WINDOW && q0 >= WINDOW ? (q0 - WINDOW + 1) / N * N : 0; }
__device__ static int last_key(const Args& a, long long b, int q0, int rows) {
  const int last = CAUSAL && q0 + rows < a.keys ? q0 + rows : a.keys;
  return LENGTHS && a.lengths[b] < last ? a.lengths[b] : last;
}
)";
}  // namespace

std::string tensor_tiles_source() { return str(kTensorCores, kTensorTiles); }

}  // namespace lockstep::compiler::cuda
