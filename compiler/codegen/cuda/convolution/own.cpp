// Convolution by our own kernel: one thread per element, sums in a fixed order. For shapes that cuDNN
// refuses.
#include <algorithm>

#include "compiler/codegen/cuda/convolution/convolution.h"
#include "compiler/codegen/cuda/source/module.h"
#include "core/base/error.h"
#include "core/base/hash.h"

namespace lockstep::compiler::cuda {

namespace {
using Which = ConvolutionShape::Which;

// Elements are numbered in memory order. SPLIT gives the number's coordinates along dims a [A], b [B] and c
// [C]; PLACE gives the number for coordinates. A place in the padding adds nothing.
constexpr const char* kChannelsFirst = R"(
#define SPLIT(i, a, b, B, c, C) long long c = i % (C), b = i / (C) % (B), a = i / (C) / (B);
#define PLACE(a, b, B, c, C) (((a) * (B) + (b)) * (C) + (c))
)";
constexpr const char* kChannelsLast = R"(
#define SPLIT(i, a, b, B, c, C) long long b = i % (B), c = i / (B) % (C), a = i / (B) / (C);
#define PLACE(a, b, B, c, C) (((a) * (C) + (c)) * (B) + (b))
)";
constexpr const char* kForward = R"(
  SPLIT(i, n, o, OUTPUTS, w, WINDOWS)
  long long c0 = o / (OUTPUTS / GROUPS) * PER_GROUP;
  for (long long c = 0; c < PER_GROUP; ++c)
    for (long long p = 0; p < PLACES; ++p) {
      long long at = element(w, p);
      if (at >= 0)
        sum = FMA(load_T(x[PLACE(n, c0 + c, CHANNELS, at, ELEMENTS)]),
                  load_T(weight[PLACE(o, c, PER_GROUP, p, PLACES)]), sum);
    }
  if (bias) sum += load_T(bias[o]);
  y[i] = store_T(sum);
)";
constexpr const char* kInput = R"(
  SPLIT(i, n, c, CHANNELS, e, ELEMENTS)
  long long o0 = c / PER_GROUP * (OUTPUTS / GROUPS);
  for (long long o = o0; o < o0 + OUTPUTS / GROUPS; ++o)
    for (long long p = 0; p < PLACES; ++p) {
      long long w = window(e, p);
      if (w >= 0)
        sum = FMA(load_T(y[PLACE(n, o, OUTPUTS, w, WINDOWS)]),
                  load_T(weight[PLACE(o, c % PER_GROUP, PER_GROUP, p, PLACES)]), sum);
    }
  x[i] = store_T(sum);
)";
constexpr const char* kOwnWeight = R"(
  SPLIT(i, o, c, PER_GROUP, p, PLACES)
  long long c0 = o / (OUTPUTS / GROUPS) * PER_GROUP;
  for (long long n = 0; n < SAMPLES; ++n)
    for (long long w = 0; w < WINDOWS; ++w) {
      long long at = element(w, p);
      if (at >= 0)
        sum = FMA(load_T(x[PLACE(n, c0 + c, CHANNELS, at, ELEMENTS)]),
                  load_T(y[PLACE(n, o, OUTPUTS, w, WINDOWS)]), sum);
    }
  weight[i] = store_T(sum);
)";
// The element that place p of window w reads, and the window that reads element e at place p; -1: none.
constexpr const char* kPlaces = R"(
static __device__ __forceinline__ long long element(long long w, long long p) {
  long long at = 0, factor = 1;
  const long long spatial[3] = SPATIAL, sizes[3] = SIZES, counts[3] = COUNTS, stride[3] = STRIDE, lo[3] =
      LO, dilation[3] = DILATION;
  for (int d = 2; d >= 0; --d) {
    long long i = w % counts[d] * stride[d] + p % sizes[d] * dilation[d] - lo[d];
    if (i < 0 || i >= spatial[d]) return -1;
    at += i * factor;
    factor *= spatial[d], w /= counts[d], p /= sizes[d];
  }
  return at;
}
static __device__ __forceinline__ long long window(long long e, long long p) {
  long long at = 0, factor = 1;
  const long long spatial[3] = SPATIAL, sizes[3] = SIZES, counts[3] = COUNTS, stride[3] = STRIDE, lo[3] =
      LO, dilation[3] = DILATION;
  for (int d = 2; d >= 0; --d) {
    long long i = e % spatial[d] + lo[d] - p % sizes[d] * dilation[d];
    if (i < 0 || i % stride[d] != 0 || i / stride[d] >= counts[d]) return -1;
    at += i / stride[d] * factor;
    factor *= counts[d], e /= spatial[d], p /= sizes[d];
  }
  return at;
}
)";

int64_t written(const ConvolutionShape& s) {
  return s.which == Which::forward ? s.n * s.outputs * s.windows()
         : s.which == Which::input ? s.n * s.channels * s.elements()
                                   : s.weights();
}

class OwnConvolution : public LibraryCall {
 public:
  OwnConvolution(CudaDevice& device, const ConvolutionShape& shape, std::string why,
                 const std::string& cache_dir)
      : shape_(shape), why_(std::move(why)) {
    if (written(shape_) == 0) return;
    device.enter();
    const std::string source = convolution_source(shape_);
    hash_ = hash_hex(source);
    kernel_ = {source_module(device, source, cache_dir), "convolution_element"};
  }
  void enqueue(void* const* args, void*, Stream& stream, int) const override {
    const int64_t count = written(shape_);
    if (count == 0) return;
    ConvolutionPointers at = convolution_pointers(shape_, args);
    void* params[] = {&at.x, &at.weight, &at.y, &at.bias};
    const int64_t blocks = std::min<int64_t>((count + 255) / 256, INT32_MAX);
    launch(kernel_, static_cast<unsigned>(blocks), 1, 1, 256, 0, stream, params, "convolution_element");
  }
  std::string algorithm() const override {
    return str("own ", convolution_text(shape_), " ", hash_, " deterministic",
               why_.empty() ? "" : "; " + why_);
  }
  double flops() const override { return convolution_flops(shape_); }

 private:
  ConvolutionShape shape_;
  std::string why_, hash_;
  SourceKernel kernel_;
};
class ChannelBias : public LibraryCall {
 public:
  ChannelBias(CudaDevice& device, const ConvolutionShape& shape, const std::string& cache_dir)
      : shape_(shape) {
    device.enter();
    kernel_ = {source_module(device, channel_bias_source(shape_), cache_dir), "channel_bias"};
  }
  void enqueue(void* const* args, void*, Stream& stream, int) const override {
    ConvolutionPointers at = convolution_pointers(shape_, args);
    void* params[] = {&at.y, &at.bias};
    const int64_t blocks = std::min<int64_t>((written(shape_) + 255) / 256, INT32_MAX);
    launch(kernel_, static_cast<unsigned>(blocks), 1, 1, 256, 0, stream, params, "channel_bias");
  }
  std::string algorithm() const override { return "channel bias"; }

 private:
  ConvolutionShape shape_;
  SourceKernel kernel_;
};
}  // namespace

std::string channel_bias_source(const ConvolutionShape& s) {
  return str(element_text("T", s.dtype),
             "extern \"C\" __global__ void channel_bias(T_t* y, const T_t* bias) {\n",
             "  for (long long i = blockIdx.x * 256LL + threadIdx.x; i < ", written(s),
             "LL; i += gridDim.x * 256LL)\n", "    y[i] = store_T(load_T(y[i]) + load_T(bias[i / ",
             s.channels_last ? 1 : s.windows(), "LL % ", s.outputs, "LL]));\n}\n");
}
std::unique_ptr<LibraryCall> make_channel_bias(CudaDevice& device, const ConvolutionShape& shape,
                                               const std::string& cache_dir) {
  return std::make_unique<ChannelBias>(device, shape, cache_dir);
}

std::string convolution_source(const ConvolutionShape& s) {
  const ConvolutionDims d = convolution_dims(s);
  auto define = [](const char* name, int64_t value) { return str("#define ", name, " ", value, "LL\n"); };
  auto three = [](const char* name, const int64_t(&list)[3]) {
    return str("#define ", name, " {", list[0], "LL, ", list[1], "LL, ", list[2], "LL}\n");
  };
  const char* body = s.which == Which::forward ? kForward : s.which == Which::input ? kInput : kOwnWeight;
  return str(
      element_text("T", s.dtype), "typedef ", sum_type(s.dtype), " Sum;\n#define FMA(a, b, c) ",
      s.dtype == DType::f64 ? "fma(a, b, c)\n" : "fmaf(a, b, c)\n", define("SAMPLES", s.n),
      define("CHANNELS", s.channels), define("OUTPUTS", s.outputs), define("GROUPS", s.groups),
      define("PER_GROUP", s.channels / s.groups), define("ELEMENTS", s.elements()),
      define("WINDOWS", s.windows()), define("PLACES", s.places()), define("COUNT", written(s)),
      three("SPATIAL", d.spatial), three("SIZES", d.sizes), three("COUNTS", d.counts),
      three("STRIDE", d.stride), three("LO", d.lo), three("DILATION", d.dilation),
      s.channels_last ? kChannelsLast : kChannelsFirst, kPlaces,
      "static __device__ void one(long long i, T_t* x, T_t* weight, T_t* y, const T_t* bias) {\n  Sum sum = "
      "0;\n",
      body,
      "}\nextern \"C\" __global__ void convolution_element(T_t* x, T_t* weight, T_t* y, const T_t* bias) {\n"
      "  for (long long i = blockIdx.x * 256LL + threadIdx.x; i < COUNT; i += gridDim.x * 256LL)\n"
      "    one(i, x, weight, y, bias);\n}\n");
}

std::unique_ptr<LibraryCall> make_own_convolution(CudaDevice& device, const ConvolutionShape& shape,
                                                  const std::string& why, const std::string& cache_dir) {
  return std::make_unique<OwnConvolution>(device, shape, why, cache_dir);
}

}  // namespace lockstep::compiler::cuda
