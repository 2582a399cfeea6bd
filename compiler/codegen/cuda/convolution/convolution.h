// Convolution on CUDA: cuDNN's plans, matrix products, implicit GEMM on Hopper, and our own kernels for
// shapes that cuDNN refuses.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/codegen/cuda/matmul/gemm.h"
#include "compiler/codegen/library/convolution_shape.h"
#include "core/device/cuda/cuda_device.h"

namespace lockstep::compiler::cuda {

using namespace lockstep::cuda;  // the device and its driver, from core

// Spatial dims padded in front to three with size 1, as kernels and cuDNN read them.
struct ConvolutionDims {
  int64_t spatial[3], sizes[3], counts[3], stride[3], lo[3], hi[3], dilation[3];
};
ConvolutionDims convolution_dims(const ConvolutionShape& shape);

// Pointers of one call: x, weight and y of the convolution, whichever is the output; bias may be null.
struct ConvolutionPointers {
  void *x = nullptr, *weight = nullptr, *y = nullptr, *bias = nullptr;
};
ConvolutionPointers convolution_pointers(const ConvolutionShape& shape, void* const* args);

// A cuDNN execution plan, shared by calls of equal shape. Thread-safe.
class ConvolutionPlan {
 public:
  virtual ~ConvolutionPlan() = default;
  virtual int64_t workspace() const = 0;        // bytes, 256-byte aligned
  virtual const std::string& name() const = 0;  // engine and knobs, in cuDNN's words
  virtual void enqueue(const ConvolutionPointers& pointers, void* workspace, Stream& stream) const = 0;
};
// The plan of a shape in f32, bf16 or f16, with its bias if it has one, built at the first call. Only
// deterministic engines that add products in f32 count (no Winograd, no FFT, no TF32 unless `tf32`). Null if
// none is left; `refused` then says why. UserError when cuDNN cannot be opened.
std::shared_ptr<const ConvolutionPlan> plan_convolution(CudaDevice& device, const ConvolutionShape& shape,
                                                        bool tf32, std::string& refused);
// For benchmarks: every plan that cuDNN's heuristics list, that can be built and that does not round its
// operands, with the reason why plan_convolution bars it ("" if it does not).
struct ConvolutionChoice {
  std::shared_ptr<const ConvolutionPlan> plan;
  std::string barred;
};
std::vector<ConvolutionChoice> convolution_choices(CudaDevice& device, const ConvolutionShape& shape,
                                                   bool tf32);

// CUDA C++ of `convolution_element`, one thread per output element. Each is a sum in order: of channels and
// places (forward), of output channels and places (input), of samples and windows (weight). Sums are in f32
// with fused multiply-adds (f64 for f64), rounded once, after the bias.
std::string convolution_source(const ConvolutionShape& shape);
// `why`: why cuDNN does not run it, for the certificate.
std::unique_ptr<LibraryCall> make_own_convolution(CudaDevice& device, const ConvolutionShape& shape,
                                                  const std::string& why, const std::string& cache_dir);

// Whether the depthwise kernels run it: two spatial dims, each output channel reads the input channel of its
// number, f32, bf16 or f16, windows that fit a thread. The gradient of an input needs strides of 1.
bool is_depthwise(const ConvolutionShape& shape);
// For tensors stored channels last. Forward and input: sums over places in order. Weight: rows of windows in
// parts that are a function of the shape, each part in order, then the parts in order. Sums are in f32 with
// fused multiply-adds, rounded once, after the bias.
std::unique_ptr<LibraryCall> make_depthwise(CudaDevice& device, const ConvolutionShape& shape,
                                            const std::string& cache_dir);
std::string depthwise_source(const ConvolutionShape& shape);  // CUDA C++ of `depthwise` and `depthwise_sum`

// Pixels copied from one grid into another. Pixel (y, x) of the new grid is pixel (y * up / down, x * up /
// down) of the old one if that is whole and inside, else zeros. A grid of patches stores the pixels of a
// square one after the other, each as a row of `channels`. If tensors are stored channels first, each pixel
// of a square has its own plane in the old grid (`planes`; `up` and `to_patch` are then 1).
struct PixelMove {
  int64_t channels = 0, samples = 0;
  int64_t from[2] = {1, 1}, to[2] = {1, 1};  // height and width of a sample's grid
  int64_t up = 1, down = 1;
  int64_t from_patch = 1, to_patch = 1;  // pixels along a side of a patch; divide the grid
  bool planes = false;
  int64_t elements() const { return samples * to[0] * to[1] * channels; }
};

// Channels last, a pixel's channels are a row. So y = x W^T (forward: A is x, B the weight), dx = dy W
// (input: A is dy, B the weight), dW = dy^T x (weight: A is dy, B is x).
//   - One place, stride 1: the tensors are used as they are stored.
//   - One place, a larger stride: A or B is gathered first, or the result is spread.
//   - As many places as the stride: a window's pixels are a patch, and so one longer row.
// Channels first, only the gradient of the input: dx = W^T dy for each sample (A is the weight, B is dy),
// then spread.
struct ConvolutionProduct {
  GemmOptions gemm;
  std::optional<PixelMove> a, b;    // made before the product
  std::optional<PixelMove> spread;  // applied to its result
};
// Whether no two windows share a pixel: windows of one place, or as far apart as they are long; no padding,
// groups or dilation.
bool has_separate_windows(const ConvolutionShape& shape);
// The f32 product of a shape. None if windows share pixels. Channels first, only the gradient of the input of
// windows with a stride has one.
std::optional<ConvolutionProduct> convolution_product(const ConvolutionShape& shape);

std::string move_pixels_source(const PixelMove& move);  // CUDA C++ of `move_pixels(from, to)`

// Null if cuBLASLt has no algorithm.
std::unique_ptr<LibraryCall> make_product_convolution(CudaDevice& device, const ConvolutionShape& shape,
                                                      const ConvolutionProduct& product,
                                                      const std::string& cache_dir);

// The gradient of an input in f32 as a convolution of dy: two dims, strides of 1, no groups. It reads the
// weight with inputs and outputs exchanged and its places backwards.
std::optional<ConvolutionShape> mirrored_convolution(const ConvolutionShape& shape);
// Whether cuDNN's convolution of dy is faster than its gradient: true for many windows.
bool pays_mirrored(const ConvolutionShape& shape);
// CUDA C++ of `mirror_weight(from, to)`; `shape` is the gradient's.
std::string mirrored_weight_source(const ConvolutionShape& shape);
// Null if cuDNN refuses `mirrored`.
std::unique_ptr<LibraryCall> make_mirrored_convolution(CudaDevice& device, const ConvolutionShape& shape,
                                                       const ConvolutionShape& mirrored,
                                                       const std::string& cache_dir);

// Why an f32 convolution cannot run as six bf16 products on Hopper's tensor cores on this device; "" if it
// can. Tensors must be channels last; the gradient of an input needs strides of 1.
std::string unfit_for_bf16x6(const ConvolutionShape& shape, const Properties& device);
// Whether one that can is faster than cuDNN's f32 engines, by its sizes and an H200's rates on every device,
// because the choice decides bits.
bool pays_bf16x6(const ConvolutionShape& shape);
// Such a convolution as an implicit GEMM. Its error is that of a product (make_bf16x6), in sums over places
// and then channels, or over windows. The workspace has three regions:
//   - parts of the pixels, six bytes per number, of as many samples at a time as fit into `most_parts` bytes,
//     at least one (for a weight's gradient, of their windows, too);
//   - parts of the weight;
//   - pieces of sums, at most 512 MiB and the size of a weight.
// Deterministic. For a forward pass or an input's gradient, bits depend on `most_parts` only through the
// pieces.
inline constexpr int64_t kBf16x6Pixels = int64_t{256} << 20;
std::unique_ptr<LibraryCall> make_bf16x6_convolution(CudaDevice& device, const ConvolutionShape& shape,
                                                     const std::string& cache_dir,
                                                     int64_t most_parts = kBf16x6Pixels);

// y += bias per channel, in place; args as in `convolution`.
std::unique_ptr<LibraryCall> make_channel_bias(CudaDevice& device, const ConvolutionShape& shape,
                                               const std::string& cache_dir);
std::string channel_bias_source(const ConvolutionShape& shape);  // CUDA C++ of `channel_bias`

}  // namespace lockstep::compiler::cuda
