// f32 convolutions on Hopper's tensor cores as implicit GEMM: the products of bf16x6_tiles, where TMA gathers
// the pixels that windows read at a place (its im2col mode).
#include <algorithm>
#include <cstdlib>
#include <optional>
#include <vector>

#include "compiler/codegen/cuda/convolution/convolution.h"
#include "compiler/codegen/cuda/loops/form.h"
#include "compiler/codegen/cuda/matmul/bf16x6_tiles.h"
#include "compiler/codegen/cuda/matmul/gemm_bf16x6.h"
#include "core/base/error.h"

namespace lockstep::compiler::cuda {

namespace {
using Which = ConvolutionShape::Which;
// Measured operations per second of cuDNN's deterministic f32 engines on an H200; fewer for a weight gradient
// with few channels.
double direct_rate(const ConvolutionShape& s) {
  const double all = 3e13, channels = static_cast<double>(s.channels * s.outputs) / (64.0 * 64.0);
  return s.which == Which::weight ? all * std::min(1.0, channels) : all;
}
constexpr int64_t kMostCorner = 127, kMostStride = 8;  // of a tensor map

size_t aligned(int64_t bytes) { return static_cast<size_t>(over(bytes, 256) * 256); }
int64_t reach(const ConvolutionShape& s, size_t d) { return s.dilation[d] * (s.sizes[d] - 1); }

// The operands: windows of a forward convolution (of dy for the gradient of an input), and the matrix by
// which they are multiplied. Channels last.
struct Windows {
  ConvolutionShape shape;  // forward, or the gradient of a weight
  bool mirrored = false;
  TileForm form = {};  // of all samples
  PartsShape pixels() const { return {shape.n * shape.elements(), shape.channels}; }
  // The shape of the weight as the caller stores it; for a weight's gradient, of the gradient of the windows.
  PartsShape other() const {
    if (shape.which == Which::weight) return {shape.n * shape.windows(), shape.outputs};
    return mirrored ? PartsShape{shape.channels * shape.places(), shape.outputs}
                    : PartsShape{shape.outputs * shape.places(), shape.channels};
  }
  int64_t blocks() const { return over(shape.channels, kBf16x6Step); }
  TileRun run() const {
    const int64_t windows = shape.n * shape.windows(), terms = shape.places() * blocks();
    return shape.which == Which::weight
               ? run_of(form, shape.outputs, terms * kBf16x6Step, over(windows, kBf16x6Step), 1)
               : run_of(form, windows, shape.outputs, terms, 1);
  }
};
Windows of_samples(Windows windows, int64_t samples) {
  windows.shape.n = samples;
  return windows;
}
int64_t samples_at_a_time(const Windows& windows, int64_t most_parts = kBf16x6Pixels) {
  const Windows one = of_samples(windows, 1);
  int64_t of_one = one.pixels().bytes();
  if (windows.shape.which == Which::weight) of_one = std::max(of_one, one.other().bytes());
  const int64_t most = std::max<int64_t>(1, most_parts / of_one);
  return over(windows.shape.n, over(windows.shape.n, most));
}
std::optional<Windows> windows_of(const ConvolutionShape& s) {
  const bool input = s.which == Which::input;
  const auto shape = input ? mirrored_convolution(s) : s;
  if (!shape) return {};
  if (s.which == Which::weight)
    return Windows{*shape, false,
                   TileForm{true, true, TileForm::Pixels::b}.of(s.outputs, s.places() * s.channels)};
  return Windows{*shape, input,
                 TileForm{false, input, TileForm::Pixels::a}.of(s.n * shape->windows(), shape->outputs)};
}

double seconds_of(const Windows& w) {
  double seconds = split_seconds(w.pixels()) + split_seconds(w.other());
  const int64_t kept = samples_at_a_time(w);
  for (int64_t first = 0; first < w.shape.n; first += kept)
    seconds += of_samples(w, std::min(kept, w.shape.n - first)).run().seconds;
  return seconds;
}

cuuint64_t number(int64_t x) { return static_cast<cuuint64_t>(x); }

// Boxes of the pixels of windows, for a tile or a step. The planes of parts are stored sample after sample.
CUtensorMap pixel_map(std::byte* parts, const Windows& windows) {
  const ConvolutionShape& s = windows.shape;
  const PartsShape pixels = windows.pixels();
  const int64_t line = s.spatial[1] * pixels.ld() * 2;
  const cuuint64_t dims[4] = {number(s.channels), number(s.spatial[1]), number(s.spatial[0]),
                              number(3 * s.n)};
  const cuuint64_t strides[3] = {number(pixels.ld() * 2), number(line), number(s.spatial[0] * line)};
  const int lower[2] = {static_cast<int>(-s.lo[1]), static_cast<int>(-s.lo[0])},
            upper[2] = {static_cast<int>(s.hi[1] - reach(s, 1)), static_cast<int>(s.hi[0] - reach(s, 0))};
  const cuuint32_t steps[4] = {1, static_cast<cuuint32_t>(s.stride[1]), static_cast<cuuint32_t>(s.stride[0]),
                               1};
  const auto count = static_cast<cuuint32_t>(s.which == Which::weight ? kBf16x6Step : windows.form.rows);
  CUtensorMap map;
  check(driver().TensorMapEncodeIm2col(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 4, parts, dims, strides, lower,
                                       upper, kBf16x6Step, count, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                                       CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                                       CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
        str("tensor map of the pixels of ", convolution_text(s)));
  return map;
}
// Boxes of a weight at one place: for a tile's outputs or, if mirrored, for a step's channels.
CUtensorMap weight_map(std::byte* parts, const Windows& windows) {
  const PartsShape weight = windows.other();
  const int64_t places = windows.shape.places(), ld = weight.ld() * 2;
  return tiled_map(parts, {weight.columns, places, weight.rows / places, 3},
                   {ld, places * ld, weight.rows * ld},
                   {kBf16x6Step, 1, windows.mirrored ? kBf16x6Step : windows.form.columns, 3},
                   "the weight of " + convolution_text(windows.shape));
}
WindowArgs args_of(const Windows& windows) {
  const ConvolutionShape& s = windows.shape;
  auto narrow = [](int64_t x) { return static_cast<int>(x); };
  WindowArgs out{};
  out.samples = narrow(s.n), out.counts_h = narrow(s.counts[0]), out.counts_w = narrow(s.counts[1]);
  out.stride_h = narrow(s.stride[0]), out.stride_w = narrow(s.stride[1]);
  out.lo_h = narrow(s.lo[0]), out.lo_w = narrow(s.lo[1]);
  out.dilation_h = narrow(s.dilation[0]), out.dilation_w = narrow(s.dilation[1]);
  out.sizes_w = narrow(s.sizes[1]), out.places = narrow(s.places());
  out.blocks = narrow(windows.blocks()), out.channels = narrow(s.channels);
  out.mirrored = windows.mirrored;
  return out;
}

// Processes some samples at a time: their pixels are split into parts, and multiplied.
class Bf16x6Convolution : public LibraryCall {
 public:
  Bf16x6Convolution(CudaDevice& device, const ConvolutionShape& shape, const Windows& windows,
                    const std::string& cache_dir, int64_t most_parts)
      : shape_(shape),
        windows_(windows),
        kept_(samples_at_a_time(windows, most_parts)),
        kernels_(device, windows.form, cache_dir) {
    for (int64_t first = 0; first < windows.shape.n; first += kept_)
      runs_.push_back(of_samples(windows, std::min(kept_, windows.shape.n - first)).run());
    places_ = places();
    text_ = str("bf16x6 ", convolution_text(shape), " by ", kept_, " pieces=", runs_[0].pieces);
    if (windows.shape.n % kept_) text_ += str(", then pieces=", runs_.back().pieces);
    text_ += str(" ", kernels_.hash(), " deterministic");
  }
  size_t workspace(int) const override { return places_.end; }
  std::string algorithm() const override { return text_; }
  double flops() const override { return convolution_flops(shape_); }
  void enqueue(void* const* args, void* workspace, Stream& stream, int) const override {
    const ConvolutionPointers p = convolution_pointers(shape_, args);
    auto* memory = static_cast<std::byte*>(workspace);
    if (shape_.which == Which::weight)
      gradient_of_weight(p, memory, stream);
    else
      forward(p, memory, stream);
  }

 private:
  // Places in the workspace: parts of pixels, parts of the other operand, sums, the ticket.
  struct Places {
    size_t other, sums, ticket, end;
  };
  Places places() const {
    const Windows most = of_samples(windows_, kept_);
    const size_t other = aligned(most.pixels().bytes()), sums = other + aligned(most.other().bytes());
    const bool weight = shape_.which == Which::weight;
    int64_t bytes = 0, pieces = 0;
    for (const TileRun& run : runs_)
      bytes = std::max(bytes, run.piece_bytes()), pieces = std::max(pieces, run.pieces);
    if (weight) bytes = adds_up() ? (1 + pieces) * shape_.weights() * 4 : 0;
    return {other, sums, sums + aligned(bytes), sums + aligned(bytes) + 256};
  }
  // Whether the gradient of a weight is a sum of several pieces, added one after another.
  bool adds_up() const { return runs_.size() > 1 || runs_[0].pieces > 1; }
  void split(const float* x, const PartsShape& shape, std::byte* to, int* ticket, Stream& stream) const {
    kernels_.split(x, shape.columns, 0, shape, to, ticket, stream);
  }
  TileArgs args_in(std::byte* memory) const {
    TileArgs out{};
    out.ticket = reinterpret_cast<int*>(memory + places_.ticket);
    return out;
  }
  void forward(const ConvolutionPointers& p, std::byte* memory, Stream& stream) const {
    const Places& at = places_;
    const ConvolutionShape& s = windows_.shape;
    const auto* x = static_cast<const float*>(windows_.mirrored ? p.y : p.x);
    TileArgs tiles = args_in(memory);
    tiles.d = static_cast<float*>(windows_.mirrored ? p.x : p.y);
    tiles.bias = static_cast<const float*>(p.bias);
    tiles.ldd = tiles.n = static_cast<int>(s.outputs);
    split(static_cast<const float*>(p.weight), windows_.other(), memory + at.other, nullptr, stream);
    tiles.b = weight_map(memory + at.other, windows_);
    for (size_t i = 0; i < runs_.size(); ++i) {
      const Windows some = part(i);
      split(x, some.pixels(), memory, tiles.ticket, stream);
      tiles.a = pixel_map(memory, some), tiles.windows = args_of(some);
      kernels_.multiply(runs_[i], tiles, reinterpret_cast<float*>(memory + at.sums), text_, stream);
      x += some.pixels().rows * some.pixels().columns, tiles.d += runs_[i].m * s.outputs;
    }
  }
  void gradient_of_weight(const ConvolutionPointers& p, std::byte* memory, Stream& stream) const {
    const Places& at = places_;
    const ConvolutionShape& s = windows_.shape;
    const auto *x = static_cast<const float*>(p.x), *y = static_cast<const float*>(p.y);
    auto* sum = reinterpret_cast<float*>(memory + at.sums);
    TileArgs whole = args_in(memory);
    whole.d = static_cast<float*>(p.weight);
    whole.ldd = whole.n = static_cast<int>(s.places() * s.channels);
    for (size_t i = 0; i < runs_.size(); ++i) {
      const Windows some = part(i);
      split(x, some.pixels(), memory, whole.ticket, stream);
      split(y, some.other(), memory + at.other, nullptr, stream);
      TileArgs tiles = whole;
      tiles.a = map_of(memory + at.other, some.other(), kBf16x6Step), tiles.b = pixel_map(memory, some);
      tiles.windows = args_of(some);
      if (!adds_up()) return kernels_.multiply(runs_[i], tiles, nullptr, text_, stream);
      kernels_.multiply_pieces(runs_[i], tiles, i ? sum + s.weights() : sum, text_, stream);
      tiles.d = i + 1 < runs_.size() ? sum : whole.d;
      if (const int64_t count = runs_[i].pieces + (i ? 1 : 0); count > 1)
        kernels_.sum_pieces(runs_[i], count, tiles, sum, stream);
      x += some.pixels().rows * some.pixels().columns, y += some.other().rows * some.other().columns;
    }
  }
  Windows part(size_t i) const {
    return of_samples(windows_, std::min(kept_, windows_.shape.n - static_cast<int64_t>(i) * kept_));
  }

  ConvolutionShape shape_;
  Windows windows_;
  int64_t kept_;  // samples at a time
  Bf16x6Kernels kernels_;
  std::vector<TileRun> runs_;
  Places places_;
  std::string text_;
};
}  // namespace

std::string unfit_for_bf16x6(const ConvolutionShape& s, const Properties& device) {
  if (s.n * s.windows() * s.weights() * s.elements() == 0) return "it is empty";
  if (s.dtype != DType::f32 || s.dims() != 2 || s.groups != 1 || !s.channels_last)
    return "only convolutions of f32 over two dims, without groups, channels last, run so";
  const auto windows = windows_of(s);
  if (!windows) return "the gradient of an input runs so at strides of 1 alone";
  const ConvolutionShape& w = windows->shape;
  if (w.channels % 8 != 0) return str(w.channels, " channels of a pixel are no multiple of 8");
  for (size_t d = 0; d < 2; ++d)
    if (w.stride[d] > kMostStride || w.lo[d] > kMostCorner || std::abs(w.hi[d] - reach(w, d)) > kMostCorner ||
        reach(w, d) > kMostCorner)
      return "a stride is longer than 8, or a window or its padding than 127";
  const Windows some = of_samples(*windows, samples_at_a_time(*windows));
  if (std::max(some.pixels().bytes(), some.other().bytes()) > 2 * kBf16x6Parts)
    return "the parts of an operand take more than 2 GiB";
  const TileRun run = some.run();
  if (run.tiles() * run.pieces > INT32_MAX || some.shape.n * w.windows() > INT32_MAX - kBf16x6Tile)
    return "it has too many tiles";
  return lacks_bf16x6(device);
}

bool pays_bf16x6(const ConvolutionShape& s) {
  const auto windows = windows_of(s);
  return windows && seconds_of(*windows) < 0.85 * convolution_flops(s) / direct_rate(s);
}

std::unique_ptr<LibraryCall> make_bf16x6_convolution(CudaDevice& device, const ConvolutionShape& shape,
                                                     const std::string& cache_dir, int64_t most_parts) {
  LS_CHECK(windows_of(shape), convolution_text(shape), " does not run so");
  return std::make_unique<Bf16x6Convolution>(device, shape, *windows_of(shape), cache_dir, most_parts);
}

}  // namespace lockstep::compiler::cuda
