// The parts of convolution on CUDA: cuDNN's plans, and the room's own kernels for what cuDNN refuses.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "compiler/codegen/library/convolution_shape.h"
#include "core/device/cuda/cuda_device.h"

namespace lockstep::compiler::cuda {

using namespace lockstep::cuda;  // the device and its driver, of core

// Spatial dims as three, the leading ones of one element: what kernels and cuDNN take.
struct ConvolutionDims {
  int64_t spatial[3], sizes[3], counts[3], stride[3], lo[3], hi[3], dilation[3];
};
ConvolutionDims convolution_dims(const ConvolutionShape& shape);

// Pointers of one call: x, weight and y of the convolution, whichever of them is written; bias may be null.
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
// The plan of a shape in f32, bf16 or f16, with its bias where it has one, built at the first call. Only
// engines that are deterministic and add products in f32 (no Winograd, no FFT, no TF32 unless `tf32`). Null
// when none is left; `refused` then says why. UserError when cuDNN cannot be opened.
std::shared_ptr<const ConvolutionPlan> plan_convolution(CudaDevice& device, const ConvolutionShape& shape,
                                                        bool tf32, std::string& refused);

// CUDA C++ of `convolution_element`, one thread per element that is written, each a sum in order: of channels
// and places (forward), of output channels and places (input), of samples and windows (weight); in f32 with
// fused multiply-adds, f64 for f64, rounded once, after the bias.
std::string convolution_source(const ConvolutionShape& shape);
// `why`: for the certificate, why cuDNN does not run it.
std::unique_ptr<LibraryCall> make_own_convolution(CudaDevice& device, const ConvolutionShape& shape,
                                                  const std::string& why, const std::string& cache_dir);

// Whether the kernels below run it: two spatial dims, each output channel reads the one of its number, in
// f32, bf16 or f16, windows that fit a thread; of the gradient of an input strides of 1.
bool is_depthwise(const ConvolutionShape& shape);
// Of tensors that lie channels last. Forward and input: sums over places in order; weight: rows of windows in
// parts that are a function of the shape, each in order, then the parts in order; in f32 with fused
// multiply-adds, rounded once, after the bias.
std::unique_ptr<LibraryCall> make_depthwise(CudaDevice& device, const ConvolutionShape& shape,
                                            const std::string& cache_dir);
std::string depthwise_source(const ConvolutionShape& shape);  // CUDA C++ of `depthwise` and `depthwise_sum`

// y += bias per channel, in place: args as of `convolution`.
std::unique_ptr<LibraryCall> make_channel_bias(CudaDevice& device, const ConvolutionShape& shape,
                                               const std::string& cache_dir);
std::string channel_bias_source(const ConvolutionShape& shape);  // CUDA C++ of `channel_bias`

}  // namespace lockstep::compiler::cuda
