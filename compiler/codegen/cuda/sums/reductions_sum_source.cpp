// The kernel of the last additions: a tree over sources in registers, and squares of rows. It moves 16 bytes
// at a time if addresses allow; addresses never change the order of an addition.
#include "compiler/codegen/cuda/sums/reductions_source.h"
#include "compiler/codegen/cuda/sums/reductions_tables.h"
#include "core/base/error.h"
#include "core/base/text.h"

namespace lockstep::compiler::cuda {

namespace {
// A tile is 4 elements for each of `lanes` threads. Vector: a thread has 4 neighbours; else it has elements
// lane, lane + lanes, ... In both cases the tree over accumulators goes from the highest bit of their index
// to the lowest.
constexpr const char* kSum = R"(
template <bool vector>
__device__ __forceinline__ float4 load(const char* base, bool half, long long at, int lane, int lanes, long long n) {
  float4 x = make_float4(0, 0, 0, 0);
  if (half) {
    const unsigned short* p = (const unsigned short*)base + at;
    if (vector) {
      if (4 * lane < n) x = widen4(*(const uint2*)(p + 4 * lane));
    } else {
      if (lane < n) x.x = widen(p[lane]);
      if (lane + lanes < n) x.y = widen(p[lane + lanes]);
      if (lane + 2 * lanes < n) x.z = widen(p[lane + 2 * lanes]);
      if (lane + 3 * lanes < n) x.w = widen(p[lane + 3 * lanes]);
    }
    return x;
  }
  const float* p = (const float*)base + at;
  if (vector) {
    if (4 * lane < n) x = *(const float4*)(p + 4 * lane);
  } else {
    if (lane < n) x.x = p[lane];
    if (lane + lanes < n) x.y = p[lane + lanes];
    if (lane + 2 * lanes < n) x.z = p[lane + 2 * lanes];
    if (lane + 3 * lanes < n) x.w = p[lane + 3 * lanes];
  }
  return x;
}
template <bool vector>
__device__ __forceinline__ void store(float* p, int lane, int lanes, long long n, float4 x) {
  if (vector) {
    if (4 * lane < n) *(float4*)(p + 4 * lane) = x;
  } else {
    if (lane < n) p[lane] = x.x;
    if (lane + lanes < n) p[lane + lanes] = x.y;
    if (lane + 2 * lanes < n) p[lane + 2 * lanes] = x.z;
    if (lane + 3 * lanes < n) p[lane + 3 * lanes] = x.w;
  }
}
__device__ __forceinline__ float4 tree(const float4 (&x)[kSources]) {
  return make_float4(LS_TREE(x), LS_TREE(y), LS_TREE(z), LS_TREE(w));
}
// The product is exact in f64, so that the multiply-add rounds as the addition alone would.
__device__ __forceinline__ void add_squares(double (&sums)[4], float4 x) {
  sums[0] = __fma_rn((double)x.x, (double)x.x, sums[0]);
  sums[1] = __fma_rn((double)x.y, (double)x.y, sums[1]);
  sums[2] = __fma_rn((double)x.z, (double)x.z, sums[2]);
  sums[3] = __fma_rn((double)x.w, (double)x.w, sums[3]);
}
__device__ __forceinline__ double from_lane(double x, int distance) { return __shfl_xor_sync(~0u, x, distance); }

template <bool vector>
__device__ __forceinline__ double total(const double (&sums)[4], int lanes) {
  if (!vector) {
    double sum = (sums[0] + sums[2]) + (sums[1] + sums[3]);
    for (int d = lanes / 2; d > 0; d /= 2) sum += from_lane(sum, d);
    return sum;
  }
  double s[4] = {sums[0], sums[1], sums[2], sums[3]};
  for (int d = lanes / 2; d > 0; d /= 2)
    for (int k = 0; k < 4; ++k) s[k] += from_lane(s[k], d);
  return (s[0] + s[2]) + (s[1] + s[3]);
}
// The same for a whole warp of vectors: halves of it take over half of the accumulators each, which saves most of the exchanges.
__device__ __forceinline__ double total_of_vectors(const double (&sums)[4], int lane) {
  const bool high = lane & 16, odd = lane & 8;
  double a = (high ? sums[2] : sums[0]) + from_lane(high ? sums[0] : sums[2], 16);
  double b = (high ? sums[3] : sums[1]) + from_lane(high ? sums[1] : sums[3], 16);
  double sum = (odd ? b : a) + from_lane(odd ? a : b, 8);
  sum += from_lane(sum, 4);
  sum += from_lane(sum, 2);
  sum += from_lane(sum, 1);
  sum += from_lane(sum, 16);
  return sum + from_lane(sum, 8);
}

// Rows of one element.
template <bool vector>
__device__ __forceinline__ void flat(const SumTable& table, const SumEntry& e) {
  const long long begin = (long long)(blockIdx.x - e.first) * kFlatElements;
  for (int pass = 0; pass < kFlatElements / (4 * kThreads); pass += kUnroll < 4 ? kUnroll : 4) {
    float4 x[kUnroll < 4 ? kUnroll : 4][kSources];
#pragma unroll
    for (int u = 0; u < (kUnroll < 4 ? kUnroll : 4); ++u) {
      const long long at = begin + (pass + u) * 4 * kThreads;
#pragma unroll
      for (int s = 0; s < kSources; ++s)
        x[u][s] = load<vector>(e.from + (s ? table.deltas[e.delta + s - 1] : 0), kHalf[s], at, threadIdx.x, kThreads, e.rows - at);
    }
#pragma unroll
    for (int u = 0; u < (kUnroll < 4 ? kUnroll : 4); ++u) {
      const long long at = begin + (pass + u) * 4 * kThreads, n = e.rows - at;
      const float4 y = tree(x[u]);
      if (e.flags & kStore) store<vector>(e.out + at, threadIdx.x, kThreads, n, y);
      if (e.squares) {
        const float v[4] = {y.x, y.y, y.z, y.w};
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          const int i = vector ? 4 * threadIdx.x + k : threadIdx.x + k * kThreads;
          if (i < n) e.squares[at + i] = (double)v[k] * (double)v[k];
        }
      }
    }
  }
}

// Several rows for a warp: each is one tile of a power of two of lanes.
template <bool vector>
__device__ __forceinline__ void short_rows(const SumTable& table, const SumEntry& e) {
  int lanes = 1;
  while (4 * lanes < e.width) lanes *= 2;
  const int lane = threadIdx.x & (lanes - 1), in_pass = kThreads / lanes;
  const long long first = (long long)(blockIdx.x - e.first) * in_pass * kShortPasses + threadIdx.x / lanes;
  for (int pass = 0; pass < kShortPasses; pass += kUnroll) {
    float4 x[kUnroll][kSources];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const long long row = first + (pass + u) * in_pass;
#pragma unroll
      for (int s = 0; s < kSources; ++s)
        x[u][s] = load<vector>(e.from + (s ? table.deltas[e.delta + s - 1] : 0), kHalf[s], row * e.width, lane, lanes, row < e.rows ? e.width : 0);
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const long long row = first + (pass + u) * in_pass;
      const float4 y = tree(x[u]);
      if (e.flags & kStore) store<vector>(e.out + row * e.width, lane, lanes, row < e.rows ? e.width : 0, y);
      if (e.squares) {
        double sums[4] = {0, 0, 0, 0};
        add_squares(sums, y);
        const double sum = total<vector>(sums, lanes);
        if (lane == 0 && row < e.rows) e.squares[row] = sum;
      }
    }
  }
}

// A warp for a row, or for a piece of a long one.
template <bool vector>
__device__ __forceinline__ void row_pieces(const SumTable& table, const SumEntry& e) {
  const int lane = threadIdx.x & 31;
  const long long piece = (long long)(blockIdx.x - e.first) * (kThreads / 32) + threadIdx.x / 32;
  long long row = piece, column = 0;
  if (e.width > kPieceElements) {
    const long long per_row = (e.width + kPieceElements - 1) / kPieceElements;
    row = piece / per_row;
    column = (piece - row * per_row) * kPieceElements;
  }
  if (row >= e.rows) return;
  const long long at = row * e.width + column;
  const int count = (int)(e.width - column < kPieceElements ? e.width - column : kPieceElements);
  double sums[4] = {0, 0, 0, 0};
  for (int i = 0; i < count; i += 128 * kUnroll) {
    float4 x[kUnroll][kSources];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u)
#pragma unroll
      for (int s = 0; s < kSources; ++s)
        x[u][s] = load<vector>(e.from + (s ? table.deltas[e.delta + s - 1] : 0), kHalf[s], at + i + 128 * u, lane, 32, count - i - 128 * u);
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const float4 y = tree(x[u]);
      if (e.flags & kStore) store<vector>(e.out + at + i + 128 * u, lane, 32, count - i - 128 * u, y);
      if (e.squares) add_squares(sums, y);
    }
  }
  if (e.squares) {
    const double sum = vector ? total_of_vectors(sums, lane) : total<false>(sums, 32);
    if (lane == 0) e.squares[piece] = sum;
  }
}

extern "C" __global__ void __launch_bounds__(kThreads, kSources <= 8 ? 3 : 1) sum(const __grid_constant__ SumTable table) {
  const SumEntry& e = table.entry[find_entry(table)];
  const bool vector = e.flags & kVector;
  const int kind = e.flags & kKind;
  if (kind == kPieces) {
    if (vector) row_pieces<true>(table, e); else row_pieces<false>(table, e);
  } else if (kind == kShort) {
    if (vector) short_rows<true>(table, e); else short_rows<false>(table, e);
  } else {
    if (vector) flat<true>(table, e); else flat<false>(table, e);
  }
}
)";
}  // namespace

std::string sum_source(const std::vector<int>& merges, std::vector<bool> halves) {
  halves.resize(merges.size());
  std::vector<std::string> stack;
  for (size_t s = 0; s < merges.size(); ++s) {
    stack.push_back(str("x[", s, "].c"));
    for (int m = 0; m < merges[s]; ++m) {
      LS_CHECK(stack.size() > 1, "more merges than partials");
      const std::string right = stack.back();
      stack.pop_back();
      stack.back() = str("(", stack.back(), " + ", right, ")");
    }
  }
  LS_CHECK(stack.size() == 1, stack.size(), " partials are left of a sum over ", merges.size(), " sources");
  const size_t n = merges.size();
  std::vector<std::string> half;
  for (bool one : halves) half.emplace_back(one ? "true" : "false");
  return str("constexpr int kSources = ", n, ", kUnroll = ",
             n <= 1   ? 8
             : n <= 2 ? 4
             : n <= 4 ? 2
                      : 1,
             ";\n__device__ constexpr bool kHalf[kSources] = {", join(half, ", "), "};\n#define LS_TREE(c) ",
             stack[0], "\n", kReductionTables, "\n", kWiden, kFindEntry, kSum);
}

}  // namespace lockstep::compiler::cuda
