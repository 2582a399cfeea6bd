// CUDA C++ of the float8 kernels: convert a tensor to 8 bits, as rows and transposed.
#include "compiler/codegen/cuda/library/library.h"
#include "compiler/codegen/cuda/source/module.h"
#include "core/base/text.h"

namespace lockstep::compiler::cuda {

namespace {
// Eight neighbours, if 16 bytes are aligned.
constexpr const char* kLoadHalves = R"(
static __device__ __forceinline__ void load8(const T_t* from, float* to) {
  const uint4 all = *(const uint4*)from;
  const unsigned words[4] = {all.x, all.y, all.z, all.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    to[2 * i] = load_T((T_t)(words[i] & 0xffff));
    to[2 * i + 1] = load_T((T_t)(words[i] >> 16));
  }
}
)";
constexpr const char* kLoadWords = R"(
static __device__ __forceinline__ void load8(const T_t* from, float* to) {
  const float4 a = ((const float4*)from)[0], b = ((const float4*)from)[1];
  to[0] = a.x, to[1] = a.y, to[2] = a.z, to[3] = a.w, to[4] = b.x, to[5] = b.y, to[6] = b.z, to[7] = b.w;
}
)";

// A block has 128 x 128 elements, a thread 8 x 8 of them. It writes 8 bytes of each of its rows, and
// transposes its bytes in registers. The transposed bytes first go to shared memory, so that 16 threads write
// 128 adjacent bytes. Rows and columns are multiples of 16. Rowwise, the transposed output was rounded by the
// scales of columns.
constexpr const char* kQuantize = R"(
static __device__ __forceinline__ unsigned pair8(float lo, float hi) {
  unsigned short out;
  asm("cvt.rn.satfinite.FORMATx2.f32 %0, %1, %2;" : "=h"(out) : "f"(hi), "f"(lo));
  return out;
}
static __device__ __forceinline__ void turn4(unsigned a, unsigned b, unsigned c, unsigned d, unsigned* out) {
  const unsigned t0 = __byte_perm(a, b, 0x5140), t1 = __byte_perm(c, d, 0x5140);
  const unsigned t2 = __byte_perm(a, b, 0x7362), t3 = __byte_perm(c, d, 0x7362);
  out[0] = __byte_perm(t0, t1, 0x5410), out[1] = __byte_perm(t0, t1, 0x7632);
  out[2] = __byte_perm(t2, t3, 0x5410), out[3] = __byte_perm(t2, t3, 0x7632);
}
// Where a block stands in the matrix, a thread in its block, and the first of the thread's elements.
struct Place {
  int left, top, across, down, row, column;
};
static __device__ __forceinline__ Place place_of(int tiles_across) {
  const int left = (int)(blockIdx.x % tiles_across) * 128, top = (int)(blockIdx.x / tiles_across) * 128;
  const int across = threadIdx.x & 15, down = threadIdx.x >> 4;
  return {left, top, across, down, top + down * 8, left + across * 8};
}
static __device__ __forceinline__ float at_least(float most) { return most < 1e-12f ? 1e-12f : most; }
// Rows 0 to 3 and 4 to 7 of each column, for what leaves the block turned.
static __device__ __forceinline__ void turn8(const uint2* q, uint2 (*tile)[16], int across, int down) {
  unsigned low[8], high[8];
  turn4(q[0].x, q[1].x, q[2].x, q[3].x, low), turn4(q[0].y, q[1].y, q[2].y, q[3].y, low + 4);
  turn4(q[4].x, q[5].x, q[6].x, q[7].x, high), turn4(q[4].y, q[5].y, q[6].y, q[7].y, high + 4);
#pragma unroll
  for (int j = 0; j < 8; ++j) tile[across * 8 + j][down ^ across] = make_uint2(low[j], high[j]);
}
static __device__ __forceinline__ void write_turned(unsigned char* turned, uint2 (*tile)[16], int left, int top,
    int rows, int columns) {
#pragma unroll
  for (int pass = 0; pass < 8; ++pass) {
    const int at = pass * 256 + threadIdx.x, c = at >> 4, unit = at & 15;
    if (left + c < columns && top + unit * 8 < rows)
      *(uint2*)(turned + (long long)(left + c) * rows + top + unit * 8) = tile[c][unit ^ (c >> 3)];
  }
}
static __device__ __forceinline__ uint2 round8(const float* v) {
  return make_uint2(pair8(v[0], v[1]) | pair8(v[2], v[3]) << 16, pair8(v[4], v[5]) | pair8(v[6], v[7]) << 16);
}
extern "C" __global__ void __launch_bounds__(256) quantize(const T_t* x, const float* most, unsigned char* rows_out,
    unsigned char* turned, float* inverse, int rows, int columns, int tiles_across) {
  const float kept = at_least(*most), scale = MOSTf / kept;
  if (blockIdx.x == 0 && threadIdx.x == 0) *inverse = kept / MOSTf;
  __shared__ uint2 tile[128][16];
  const Place at = place_of(tiles_across);
  const int row = at.row, column = at.column;
  uint2 q[8];
  if (row < rows && column < columns) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      float v[8];
      load8(x + (long long)(row + i) * columns + column, v);
#pragma unroll
      for (int j = 0; j < 8; ++j) v[j] *= scale;
      q[i] = round8(v);
      *(uint2*)(rows_out + (long long)(row + i) * columns + column) = q[i];
    }
    turn8(q, tile, at.across, at.down);
  }
  __syncthreads();
  write_turned(turned, tile, at.left, at.top, rows, columns);
}
extern "C" __global__ void __launch_bounds__(256) cast_float8(const T_t* x, const float* most, unsigned char* out,
    long long groups) {
  const float scale = MOSTf / at_least(*most);
  const long long stride = (long long)gridDim.x * 256;
  for (long long g = (long long)blockIdx.x * 256 + threadIdx.x; g < groups; g += stride) {
    float v[8];
    load8(x + g * 8, v);
#pragma unroll
    for (int j = 0; j < 8; ++j) v[j] *= scale;
    *(uint2*)(out + g * 8) = round8(v);
  }
}
extern "C" __global__ void __launch_bounds__(256) transpose_float8(const unsigned char* from, const float* most,
    unsigned char* turned, float* inverse, int rows, int columns, int tiles_across) {
  if (blockIdx.x == 0 && threadIdx.x == 0) *inverse = at_least(*most) / MOSTf;
  __shared__ uint2 tile[128][16];
  const Place at = place_of(tiles_across);
  const int row = at.row, column = at.column;
  uint2 q[8];
  if (row < rows && column < columns) {
#pragma unroll
    for (int i = 0; i < 8; ++i) q[i] = *(const uint2*)(from + (long long)(row + i) * columns + column);
    turn8(q, tile, at.across, at.down);
  }
  __syncthreads();
  write_turned(turned, tile, at.left, at.top, rows, columns);
}
extern "C" __global__ void __launch_bounds__(256) quantize_rowwise(const T_t* x, const float* most_rows,
    const float* most_columns, unsigned char* rows_out, unsigned char* turned, float* inverse_rows,
    float* inverse_columns, int rows, int columns, int tiles_across) {
  __shared__ uint2 tile[128][16];
  const Place at = place_of(tiles_across);
  const int row = at.row, column = at.column;
  if (row < rows && column < columns) {
    float of_column[8];
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const float kept = at_least(most_columns[column + j]);
      of_column[j] = MOSTf / kept;
      if (row == 0) inverse_columns[column + j] = kept / MOSTf;
    }
    uint2 q[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float kept = at_least(most_rows[row + i]), of_row = MOSTf / kept;
      if (column == 0) inverse_rows[row + i] = kept / MOSTf;
      float v[8], w[8];
      load8(x + (long long)(row + i) * columns + column, v);
#pragma unroll
      for (int j = 0; j < 8; ++j) w[j] = v[j] * of_column[j], v[j] *= of_row;
      *(uint2*)(rows_out + (long long)(row + i) * columns + column) = round8(v);
      q[i] = round8(w);
    }
    turn8(q, tile, at.across, at.down);
  }
  __syncthreads();
  write_turned(turned, tile, at.left, at.top, rows, columns);
}
)";

std::string replaced(std::string text, const std::string& word, const std::string& by) {
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + by.size()))
    text.replace(at, word.size(), by);
  return text;
}
std::string loads(DType from) {
  return element_text("T", from) + (from == DType::f32 ? kLoadWords : kLoadHalves);
}
}  // namespace

std::string quantize_source(DType from, DType to) {
  const bool e4m3 = to == DType::f8_e4m3;
  return loads(from) +
         replaced(replaced(kQuantize, "FORMAT", e4m3 ? "e4m3" : "e5m2"), "MOST", e4m3 ? "448." : "57344.");
}

}  // namespace lockstep::compiler::cuda
