// Kernels around the exchange of gradients: partial sums, totals of rows, limbs, copies. They move 16 bytes
// at a time if addresses allow.
#include "compiler/codegen/cuda/sums/reductions_source.h"

#include "compiler/codegen/cuda/sums/reductions_tables.h"
#include "core/base/text.h"

namespace lockstep::compiler::cuda {

namespace {
// A row's pieces: thread t adds pieces t, t + 256, ... in order; the threads' sums are added as a tree, the
// two halves first.
constexpr const char* kTotals = R"(
extern "C" __global__ void __launch_bounds__(kThreads) row_totals(const __grid_constant__ TotalTable table) {
  __shared__ double sums[kThreads];
  const TotalEntry& e = table.entry[find_entry(table)];
  const long long row = blockIdx.x - e.first;
  const double* pieces = e.pieces + row * e.pieces_per_row;
  double sum = 0;
  for (long long i = threadIdx.x; i < e.pieces_per_row; i += kThreads) sum += pieces[i];
  sums[threadIdx.x] = sum;
  for (int half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
  }
  if (threadIdx.x == 0) e.squares[row] = sums[0];
}
)";

constexpr const char* kAccumulate = R"(
template <int lefts>
__device__ __forceinline__ void accumulate(const RunTable& table) {
  const RunEntry& e = table.entry[find_entry(table)];
  const long long begin = (long long)(blockIdx.x - e.first) * kAccumulateElements;
  constexpr int unroll = lefts == 0 ? 8 : lefts <= 1 ? 4 : lefts <= 3 ? 2 : 1;
  for (int pass = 0; pass < kAccumulateElements / (4 * kThreads); pass += unroll) {
    float4 x[unroll], left[lefts ? lefts : 1][unroll];
    long long n[unroll];
#pragma unroll
    for (int u = 0; u < unroll; ++u) {
      const long long i = begin + (pass + u) * 4 * kThreads;
      n[u] = e.count - i;
      x[u] = e.half ? load4_half((const unsigned short*)e.from + i, n[u], e.vector) : load4((const float*)e.from + i, n[u], e.vector);
#pragma unroll
      for (int l = 0; l < lefts; ++l) left[l][u] = load4(table.lefts[l] + e.at + i, n[u], e.vector);
    }
#pragma unroll
    for (int u = 0; u < unroll; ++u) {
#pragma unroll
      for (int l = 0; l < lefts; ++l)
        x[u] = make_float4(left[l][u].x + x[u].x, left[l][u].y + x[u].y, left[l][u].z + x[u].z, left[l][u].w + x[u].w);
      store4(table.to + e.at + begin + (pass + u) * 4 * kThreads, n[u], e.vector, x[u]);
    }
  }
}
)";
// 4 elements for each thread of a block; those from n on do not exist. The last elements of a vector are read
// one by one.
constexpr const char* kFour = R"(
__device__ __forceinline__ float4 load4(const float* p, long long n, bool vector) {
  float4 x = make_float4(0, 0, 0, 0);
  const int t = threadIdx.x, at = vector ? 4 * t : t, step = vector ? 1 : kThreads;
  if (vector && at + 4 <= n) return *(const float4*)(p + at);
  if (at < n) x.x = p[at];
  if (at + step < n) x.y = p[at + step];
  if (at + 2 * step < n) x.z = p[at + 2 * step];
  if (at + 3 * step < n) x.w = p[at + 3 * step];
  return x;
}
__device__ __forceinline__ float4 load4_half(const unsigned short* p, long long n, bool vector) {
  float4 x = make_float4(0, 0, 0, 0);
  const int t = threadIdx.x, at = vector ? 4 * t : t, step = vector ? 1 : kThreads;
  if (vector && at + 4 <= n) return widen4(*(const uint2*)(p + at));
  if (at < n) x.x = widen(p[at]);
  if (at + step < n) x.y = widen(p[at + step]);
  if (at + 2 * step < n) x.z = widen(p[at + 2 * step]);
  if (at + 3 * step < n) x.w = widen(p[at + 3 * step]);
  return x;
}
__device__ __forceinline__ void store4(float* p, long long n, bool vector, float4 x) {
  const int t = threadIdx.x, at = vector ? 4 * t : t, step = vector ? 1 : kThreads;
  if (vector && at + 4 <= n) {
    *(float4*)(p + at) = x;
    return;
  }
  if (at < n) p[at] = x.x;
  if (at + step < n) p[at + step] = x.y;
  if (at + 2 * step < n) p[at + 2 * step] = x.z;
  if (at + 3 * step < n) p[at + 3 * step] = x.w;
}
)";

constexpr const char* kCopy = R"(
template <class Word>
__device__ __forceinline__ void copy_words(char* to, const char* from, long long bytes) {
  constexpr int unroll = 4;
  const long long words = bytes / sizeof(Word);
  for (long long i = threadIdx.x; i < words; i += unroll * kThreads) {
    Word x[unroll];
#pragma unroll
    for (int u = 0; u < unroll; ++u)
      if (i + u * kThreads < words) x[u] = ((const Word*)from)[i + u * kThreads];
#pragma unroll
    for (int u = 0; u < unroll; ++u)
      if (i + u * kThreads < words) ((Word*)to)[i + u * kThreads] = x[u];
  }
}
extern "C" __global__ void __launch_bounds__(kThreads) copy(const __grid_constant__ CopyTable table) {
  const CopyEntry& e = table.entry[find_entry(table)];
  const long long begin = (long long)(blockIdx.x - e.first) * kCopyBytes;
  char* to = e.to + begin;
  const char* from = e.from + begin;
  long long bytes = e.bytes - begin < kCopyBytes ? e.bytes - begin : kCopyBytes;
  const unsigned apart = (unsigned)((unsigned long long)to ^ (unsigned long long)from) & 15;
  if (apart & 3) return copy_words<unsigned char>(to, from, bytes);
  // Bytes up to the first whole word, the words, and what is left.
  const int word = apart & 15 ? 4 : 16;
  long long head = (word - (int)((unsigned long long)to & (word - 1))) & (word - 1);
  if (head > bytes) head = bytes;
  copy_words<unsigned char>(to, from, head);
  to += head, from += head, bytes -= head;
  if (word == 16) copy_words<uint4>(to, from, bytes); else copy_words<unsigned>(to, from, bytes);
  const long long done = bytes / word * word;
  copy_words<unsigned char>(to + done, from + done, bytes - done);
}
extern "C" __global__ void __launch_bounds__(kThreads) checksums(const __grid_constant__ ChecksumTable table, const long long* wanted) {
  if (*wanted == 0) return;
  const ChecksumEntry& e = table.entry[find_entry(table)];
  const long long begin = (long long)(blockIdx.x - e.first) * kChecksumWords, all = e.bytes / 8;
  const long long end = all - begin < kChecksumWords ? all : begin + kChecksumWords;
  unsigned long long sum = 0;
  for (long long i = begin + threadIdx.x; i < end; i += 8 * kThreads) {
    unsigned long long x[8];
#pragma unroll
    for (int u = 0; u < 8; ++u) x[u] = i + u * kThreads < end ? e.from[i + u * kThreads] : 0;
#pragma unroll
    for (int u = 0; u < 8; ++u) sum += x[u];
  }
  if (threadIdx.x == 0 && begin + kChecksumWords >= all)
    for (int b = 0; b < (int)(e.bytes - 8 * all); ++b) sum += (unsigned long long)((const unsigned char*)(e.from + all))[b] << (8 * b);
#pragma unroll
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
  if ((threadIdx.x & 31) == 0 && sum) atomicAdd(e.sum, sum);
}
extern "C" __global__ void __launch_bounds__(kThreads) add_int64(long long* totals, const long long* addend, long long count) {
  const long long i = (long long)blockIdx.x * kThreads + threadIdx.x;
  if (i < count) totals[i] += addend[i];
}
)";

// Limbs: seven digits in base 2^40 over 2^-150, and a word of flags.
constexpr const char* kLimbs = R"(
__device__ __forceinline__ void normalise(long long (&words)[8]) {
  const long long mask = (1ll << 40) - 1, nan_flag = 1ll << 32;
  for (int i = 0; i < 6; ++i) {
    words[i + 1] += words[i] >> 40;
    words[i] &= mask;
  }
  const bool nan = words[7] >= nan_flag, inf = (words[7] & (nan_flag - 1)) != 0 || words[6] > mask;
  words[7] = nan ? nan_flag : inf ? 1 : 0;
  if (nan || inf)
    for (int i = 0; i < 7; ++i) words[i] = 0;
}
__device__ __forceinline__ void add_double(long long (&words)[8], double value) {
  const unsigned long long bits = (unsigned long long)__double_as_longlong(value);
  const int exponent = (int)(bits >> 52 & 0x7ff);
  const unsigned long long fraction = bits & ((1ull << 52) - 1);
  if ((exponent == 0x7ff && fraction) || value < 0) {
    words[7] |= 1ll << 32;
    return;
  }
  if (exponent >= 130 + 1023) {
    words[7] |= 1;
    return;
  }
  const int at = exponent - 1075 + 150;
  if (exponent == 0 || at <= -53) return;
  unsigned long long mantissa = fraction | 1ull << 52;
  int digit = 0, shift = 0;
  if (at < 0) {
    mantissa >>= -at;
  } else {
    digit = at / 40;
    shift = at - digit * 40;
  }
  const unsigned long long mask = (1ull << 40) - 1;
  const unsigned long long above = mantissa >> (40 - shift);
  const long long low = (long long)(mantissa << shift & mask), middle = (long long)(above & mask), high = (long long)(above >> 40);
#pragma unroll
  for (int i = 0; i < 7; ++i) words[i] += i == digit ? low : i == digit + 1 ? middle : i == digit + 2 ? high : 0;
}
extern "C" __global__ void __launch_bounds__(kThreads) limbs(const __grid_constant__ LimbsTable table, unsigned long long* words) {
  __shared__ long long parts[kThreads / 32][8];
  const LimbsEntry& e = table.entry[find_entry(table)];
  const long long begin = (long long)(blockIdx.x - e.first) * kLimbsDoubles;
  const int count = (int)(e.count - begin < kLimbsDoubles ? e.count - begin : kLimbsDoubles);
  long long sum[8] = {0, 0, 0, 0, 0, 0, 0, 0};
  for (int i = threadIdx.x; i < count; i += 4 * kThreads) {
    double x[4];
#pragma unroll
    for (int u = 0; u < 4; ++u) x[u] = i + u * kThreads < count ? e.from[begin + i + u * kThreads] : 0.0;
#pragma unroll
    for (int u = 0; u < 4; ++u) add_double(sum, x[u]);
  }
#pragma unroll
  for (int w = 0; w < 8; ++w) {
#pragma unroll
    for (int d = 16; d > 0; d /= 2) {
      const long long other = __shfl_xor_sync(~0u, sum[w], d);
      sum[w] = w == 7 ? sum[w] | other : sum[w] + other;
    }
    if ((threadIdx.x & 31) == 0) parts[threadIdx.x / 32][w] = sum[w];
  }
  __syncthreads();
  if (threadIdx.x > 0) return;
  for (int p = 1; p < kThreads / 32; ++p)
    for (int w = 0; w < 8; ++w) sum[w] = w == 7 ? sum[w] | parts[p][w] : sum[w] + parts[p][w];
  normalise(sum);  // so that no number of blocks overflows a word
  for (int w = 0; w < 8; ++w)
    if (sum[w]) atomicAdd(words + w, (unsigned long long)sum[w]);
}
extern "C" __global__ void limbs_finish(long long* words) {
  long long sum[8];
  for (int w = 0; w < 8; ++w) sum[w] = words[w];
  normalise(sum);
  for (int w = 0; w < 8; ++w) words[w] = sum[w];
}
extern "C" __global__ void norm_of_limbs(const long long* words, float* norm) {
  long long sum[8];
  for (int w = 0; w < 8; ++w) sum[w] = words[w];
  normalise(sum);
  if (sum[7]) {
    *norm = __int_as_float(sum[7] >> 32 ? 0x7fc00000 : 0x7f800000);
    return;
  }
  // The three highest digits as 128 bits; one bit stands for everything below them.
  int top = 6;
  while (top > 0 && sum[top] == 0) --top;
  const unsigned long long a = sum[top], b = top > 0 ? sum[top - 1] : 0, c = top > 1 ? sum[top - 2] : 0;
  unsigned long long high = a << 16 | b >> 24, low = b << 40 | c;
  for (int i = 0; i < top - 2; ++i)
    if (sum[i]) low |= 1;
  if (!(high | low)) {
    *norm = 0;
    return;
  }
  const int zeros = high ? __clzll(high) : 64 + __clzll(low);
  if (zeros >= 64) high = low << (zeros - 64), low = 0;
  else if (zeros) high = high << zeros | low >> (64 - zeros), low <<= zeros;
  unsigned long long mantissa = high >> 11;
  const unsigned rest = high & 0x7ff;
  if (rest > 0x400 || (rest == 0x400 && (low || (mantissa & 1)))) ++mantissa;
  const double total = scalbn((double)mantissa, 75 - zeros - 150 + (top - 2) * 40);
  *norm = __double2float_rn(__dsqrt_rn(total));
}
)";
}  // namespace

namespace {
std::string accumulate_kernel(int lefts) {
  return str("extern \"C\" __global__ void __launch_bounds__(kThreads) accumulate_", lefts,
             "(const __grid_constant__ RunTable table) { accumulate<", lefts, ">(table); }\n");
}
}  // namespace

std::string common_source() { return str(kReductionTables, "\n", kFindEntry, kTotals, kCopy, kLimbs); }

std::string accumulate_source(int lefts) {
  return str(kReductionTables, "\n", kFindEntry, kWiden, kFour, kAccumulate, accumulate_kernel(lefts));
}

std::string reductions_source() {
  std::string text =
      str(kReductionTables, "\n", kFindEntry, kWiden, kTotals, kFour, kAccumulate, kCopy, kLimbs);
  for (int l = 0; l <= kMaxLefts; ++l) text += accumulate_kernel(l);
  return text;
}

}  // namespace lockstep::compiler::cuda
