// Convolutions of one channel each (depthwise), channels last, by our own kernels. A thread has a few
// neighbouring channels, so that all accesses are of 16 bytes if the channels allow.
#include <algorithm>

#include "compiler/codegen/cuda/convolution/convolution.h"
#include "compiler/codegen/cuda/loops/form.h"
#include "compiler/codegen/cuda/source/module.h"
#include "core/base/error.h"
#include "core/base/hash.h"

namespace lockstep::compiler::cuda {

namespace {
using Which = ConvolutionShape::Which;

// The distribution over threads; it depends only on the shape.
struct Spread {
  int vec = 1;         // channels of a thread
  int lanes = 1;       // threads along the channels, of a block
  int64_t tiles = 1;   // blocks along the channels
  int strip = 1;       // windows of a thread along the last dim (forward, input)
  int places = 1;      // strips of a block
  int groups = 1;      // rows that a block processes at a time (weight)
  int64_t blocks = 1;  // along the other dims
  int64_t rows = 1;    // of a block (weight)
};
constexpr int kThreads = 256;
constexpr int kStrip = 4;
constexpr int64_t kRowBlocks = 528;  // of the gradient of a weight, all tiles together

// The operands of the sliding kernel. For the gradient of an input the weight, rotated, slides over dy.
struct Slide {
  int64_t from[2], to[2], lo[2];
};
Slide slide_of(const ConvolutionShape& s) {
  Slide out{};
  for (size_t d = 0; d < 2; ++d) {
    const bool input = s.which == Which::input;
    out.from[d] = input ? s.counts[d] : s.spatial[d];
    out.to[d] = input ? s.spatial[d] : s.counts[d];
    out.lo[d] = input ? s.dilation[d] * (s.sizes[d] - 1) - s.lo[d] : s.lo[d];
  }
  return out;
}

Spread spread_of(const ConvolutionShape& s) {
  Spread out;
  out.vec = static_cast<int>(16 / size_of(s.dtype));
  while (s.channels % out.vec != 0) out.vec /= 2;
  const int64_t chunks = s.channels / out.vec;
  out.lanes = static_cast<int>(std::min<int64_t>(chunks, 8));
  out.tiles = over(chunks, out.lanes);
  if (s.which != Which::weight) {
    const Slide slide = slide_of(s);
    out.strip = static_cast<int>(std::min<int64_t>(kStrip, slide.to[1]));
    out.places = kThreads / out.lanes;
    out.blocks = over(s.n * slide.to[0] * over(slide.to[1], out.strip), out.places);
  } else {
    out.groups = static_cast<int>(std::max<int64_t>(1, kThreads / (out.lanes * s.sizes[0])));
    const int64_t rows = s.n * s.counts[0];
    out.blocks = std::clamp<int64_t>(kRowBlocks / out.tiles, 1, over(rows, out.groups));
    out.rows = over(rows, out.blocks);
    out.blocks = over(rows, out.rows);
  }
  return out;
}

// The windows of a strip share the elements that they read. Sums run over the places in order; the bias comes
// last.
constexpr const char* kSlide = R"(
extern "C" __global__ void __launch_bounds__(LANES * STRIPS) depthwise(const T_t* x, const T_t* weight, T_t* y,
                                                                    const T_t* bias) {
  __shared__ float w[KH * KW][LANES * V];
  const int tile = blockIdx.x % TILES, lane = threadIdx.x % LANES;
  for (int i = threadIdx.x; i < KH * KW * LANES * V; i += LANES * STRIPS) {
    const int j = i % (LANES * V), p = i / (LANES * V), c = tile * LANES * V + j;
    w[p][j] = c < C ? load_T(weight[(long long)c * KH * KW + (TURNED ? KH * KW - 1 - p : p)]) : 0;
  }
  __syncthreads();
  const int c = (tile * LANES + lane) * V, across = (TO_W + STRIP - 1) / STRIP;
  const long long at = (long long)(blockIdx.x / TILES) * STRIPS + threadIdx.x / LANES;
  if (c >= C || at >= (long long)N * TO_H * across) return;
  const int left = (int)(at % across) * STRIP, row = (int)(at / across % TO_H);
  const long long n = at / across / TO_H;
  float sum[STRIP][V];
  for (int r = 0; r < STRIP; ++r)
    for (int j = 0; j < V; ++j) sum[r][j] = 0;
  constexpr int kRead = (STRIP - 1) * SW + (KW - 1) * DW + 1;
  #pragma unroll 1
  for (int ky = 0; ky < KH; ++ky) {
    const int h = row * SH + ky * DH - LO_H;
    if (h < 0 || h >= FROM_H) continue;
    const T_t* line = x + (n * FROM_H + h) * FROM_W * C + c;
    Vec in[kRead];
    #pragma unroll
    for (int t = 0; t < kRead; ++t) {
      const int i = left * SW - LO_W + t;
      if (i >= 0 && i < FROM_W) in[t] = *(const Vec*)(line + (long long)i * C);
      else
        for (int j = 0; j < V; ++j) in[t].v[j] = 0;
    }
    #pragma unroll
    for (int kx = 0; kx < KW; ++kx)
      #pragma unroll
      for (int j = 0; j < V; ++j) {
        const float by = w[ky * KW + kx][lane * V + j];
        #pragma unroll
        for (int r = 0; r < STRIP; ++r) sum[r][j] = fmaf(load_T(in[r * SW + kx * DW].v[j]), by, sum[r][j]);
      }
  }
  #pragma unroll
  for (int r = 0; r < STRIP; ++r) {
    if (left + r >= TO_W) break;
    Vec out;
    for (int j = 0; j < V; ++j) out.v[j] = store_T(bias ? sum[r][j] + load_T(bias[c + j]) : sum[r][j]);
    *(Vec*)(y + ((n * TO_H + row) * TO_W + left + r) * C + c) = out;
  }
}
)";
// A thread sums the places of one row of the weight over its rows of windows; partial sums are added in
// order.
constexpr const char* kDepthwiseWeight = R"(
extern "C" __global__ void __launch_bounds__(LANES * KH * GROUPS) depthwise(const T_t* x, const T_t* dy,
                                                                          float* sums) {
  const int tile = blockIdx.x % TILES, block = blockIdx.x / TILES;
  const int lane = threadIdx.x % LANES, ky = threadIdx.x / LANES % KH, group = threadIdx.x / LANES / KH;
  const int c = (tile * LANES + lane) * V;
  if (c >= C) return;
  float sum[KW][V];
  for (int k = 0; k < KW; ++k)
    for (int j = 0; j < V; ++j) sum[k][j] = 0;
  const long long end = (long long)(block + 1) * ROWS, all = (long long)N * TO_H;
  for (long long row = (long long)block * ROWS + group; row < end && row < all; row += GROUPS) {
    const int h = (int)(row % TO_H) * SH + ky * DH - LO_H;
    if (h < 0 || h >= FROM_H) continue;
    const T_t* line = x + (row / TO_H * FROM_H + h) * FROM_W * C + c;
    const T_t* given = dy + row * TO_W * C + c;
    #pragma unroll 2
    for (int i = 0; i < TO_W; ++i) {
      const Vec by = *(const Vec*)(given + (long long)i * C);
      #pragma unroll
      for (int kx = 0; kx < KW; ++kx) {
        const int at = i * SW + kx * DW - LO_W;
        if (at < 0 || at >= FROM_W) continue;
        const Vec in = *(const Vec*)(line + (long long)at * C);
        #pragma unroll
        for (int j = 0; j < V; ++j) sum[kx][j] = fmaf(load_T(in.v[j]), load_T(by.v[j]), sum[kx][j]);
      }
    }
  }
  float* to = sums + (long long)(block * GROUPS + group) * KH * KW * C + c;
  for (int k = 0; k < KW; ++k)
    for (int j = 0; j < V; ++j) to[(long long)(ky * KW + k) * C + j] = sum[k][j];
}
extern "C" __global__ void depthwise_sum(const float* sums, T_t* weight) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= C * KH * KW) return;
  float sum = 0;
  #pragma unroll 8
  for (int k = 0; k < PARTS; ++k) sum += sums[(long long)k * KH * KW * C + i];
  weight[(long long)(i % C) * KH * KW + i / C] = store_T(sum);
}
)";

std::string source_of(const ConvolutionShape& s, const Spread& spread) {
  const bool weight = s.which == Which::weight;
  const Slide slide = slide_of(s);
  std::string out = element_text("T", s.dtype);
  auto define = [&](const char* name, int64_t value) { out += str("#define ", name, " ", value, "\n"); };
  define("V", spread.vec), define("LANES", spread.lanes), define("TILES", spread.tiles);
  define("N", s.n), define("C", s.channels), define("KH", s.sizes[0]), define("KW", s.sizes[1]);
  define("SH", s.stride[0]), define("SW", s.stride[1]);
  define("DH", s.dilation[0]), define("DW", s.dilation[1]);
  define("FROM_H", slide.from[0]), define("FROM_W", slide.from[1]);
  define("TO_H", slide.to[0]), define("TO_W", slide.to[1]);
  define("LO_H", slide.lo[0]), define("LO_W", slide.lo[1]);
  if (weight)
    define("GROUPS", spread.groups), define("ROWS", spread.rows),
        define("PARTS", spread.blocks * spread.groups);
  else
    define("STRIP", spread.strip), define("STRIPS", spread.places), define("TURNED", s.which == Which::input);
  return str(out, "struct __align__(", spread.vec * size_of(s.dtype), ") Vec { T_t v[V]; };\n",
             weight ? kDepthwiseWeight : kSlide);
}

class Depthwise : public LibraryCall {
 public:
  Depthwise(CudaDevice& device, const ConvolutionShape& shape, const std::string& cache_dir)
      : shape_(shape), spread_(spread_of(shape)) {
    device.enter();
    const std::string source = source_of(shape_, spread_);
    hash_ = hash_hex(source);
    const auto module = source_module(device, source, cache_dir);
    kernel_ = {module, "depthwise"};
    if (shape_.which == Which::weight) sum_ = {module, "depthwise_sum"};
  }
  size_t workspace(int) const override {
    if (shape_.which != Which::weight) return 0;
    return static_cast<size_t>(spread_.blocks * spread_.groups * shape_.weights()) * sizeof(float);
  }
  void enqueue(void* const* args, void* workspace, Stream& stream, int) const override {
    ConvolutionPointers at = convolution_pointers(shape_, args);
    const auto grid = static_cast<unsigned>(spread_.blocks * spread_.tiles);
    if (shape_.which == Which::weight) {
      void* params[] = {&at.x, &at.y, &workspace};
      const auto block = static_cast<unsigned>(spread_.lanes * shape_.sizes[0] * spread_.groups);
      launch(kernel_, grid, 1, 1, block, 0, stream, params, "depthwise");
      void* sums[] = {&workspace, &at.weight};
      launch(sum_, static_cast<unsigned>(over(shape_.weights(), 256)), 1, 1, 256, 0, stream, sums,
             "depthwise_sum");
      return;
    }
    if (shape_.which == Which::input) std::swap(at.x, at.y);
    void* params[] = {&at.x, &at.weight, &at.y, &at.bias};
    launch(kernel_, grid, 1, 1, static_cast<unsigned>(spread_.lanes * spread_.places), 0, stream, params,
           "depthwise");
  }
  std::string algorithm() const override {
    return str("own ", convolution_text(shape_), " ", hash_, " deterministic");
  }
  double flops() const override { return convolution_flops(shape_); }

 private:
  ConvolutionShape shape_;
  Spread spread_;
  std::string hash_;
  SourceKernel kernel_, sum_;  // sum_: only for the weight's gradient
};
}  // namespace

bool is_depthwise(const ConvolutionShape& s) {
  constexpr int64_t kMostPlaces = 121;  // places for which a block keeps the weights of its channels
  constexpr int64_t kMostRead = 24;     // elements of a row in a thread's registers
  if (s.dims() != 2 || s.groups != s.channels || s.outputs != s.channels || s.dtype == DType::f64)
    return false;
  if (s.places() > kMostPlaces ||
      (kStrip - 1) * s.stride[1] + (s.sizes[1] - 1) * s.dilation[1] + 1 > kMostRead)
    return false;
  return s.which != Which::input || (s.stride[0] == 1 && s.stride[1] == 1);
}

std::string depthwise_source(const ConvolutionShape& shape) { return source_of(shape, spread_of(shape)); }

std::unique_ptr<LibraryCall> make_depthwise(CudaDevice& device, const ConvolutionShape& shape,
                                            const std::string& cache_dir) {
  return std::make_unique<Depthwise>(device, shape, cache_dir);
}

}  // namespace lockstep::compiler::cuda
