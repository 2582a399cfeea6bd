// Library calls of the CUDA target: contractions on cuBLASLt and tiles of our own, attention and convolution
// on cuDNN, row sums on kernels of our own.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compiler/codegen/library/library.h"
#include "compiler/codegen/target.h"
#include "core/device/cuda/cuda_device.h"

namespace lockstep::compiler::cuda {

using namespace lockstep::cuda;  // the device and its driver, of core

// dot and linear (core/ops/contract.cpp): inputs of any strides, a dense output; large products of f32 on
// Hopper as gemm_bf16x6.h has them. Every algorithm is chosen
// here, by shapes, strides and dtypes alone; algorithm() names it. Dense arguments lie at multiples of 16
// bytes.
std::unique_ptr<LibraryCall> make_contraction(CudaDevice& device, const Node& node,
                                              const std::vector<Operand>& in, const std::vector<Operand>& out,
                                              const TargetOptions& options);
// Of tf32, bf16 and f16: cuBLASLt's kernels that load tiles by one instruction want rows of whole 16 bytes
// and in tf32 others are a third as fast. Rates are those of an H200, whatever the device: the choice decides
// bits. In bf16 and f16 the rate of whole rows is less than products reach, so that a copy must pay well.
ProductRows product_rows(DType dtype, const TargetOptions& options);
// CUDA C++ of the kernel `add_bias`.
std::string bias_source(DType dtype);

// index_add and embedding_grad, dense: out[r] = the sum of the rows whose id is r, in f32 for bf16 and f16
// (one rounding), in the dtype itself otherwise (integers wrap). The order of a sum is a function of the
// number of its addends alone: in order of the index up to kRowPiece addends, beyond that pieces of kRowPiece
// in order, and then the pieces in order. Ids outside [0, rows) add nothing.
std::unique_ptr<LibraryCall> make_row_sums(CudaDevice& device, const Node& node,
                                           const std::vector<Operand>& in, const std::vector<Operand>& out,
                                           const TargetOptions& options);
inline constexpr int kRowPiece = 64;
// CUDA C++ of its kernels.
std::string row_sums_source(DType dtype);
// Of those that sort ids alone: digits, scan, scatter (blocks of 256 threads, 2048 ids each), bounds.
std::string row_sort_source();

// quantize, its halves and scaled_mm (core/ops/float8.cpp), dense: kernels of our own, and cuBLASLt.
// UserError: a GPU below compute capability 8.9; scales of rows on another than 9.0, or with a libcublas
// before 12.9.
std::unique_ptr<LibraryCall> make_float8(CudaDevice& device, const Node& node, const std::vector<Operand>& in,
                                         const std::vector<Operand>& out, const TargetOptions& options);
// CUDA C++ of the kernels `quantize`, `quantize_rowwise`, `cast_float8` and `transpose_float8`.
std::string quantize_source(DType from, DType to);

// Whether a convolution runs faster on tensors that lie channels last: on tensor cores, whose kernels are
// made for it, where each channel is its own, and in plain f32 where most of the graph's are products.
bool wants_channels_last(const Graph& graph, const Node& node, const Properties& device,
                         const TargetOptions& options);
// convolution and its gradients (core/ops/convolution.cpp), dense: cuDNN's deterministic engines, which add
// in f32; in plain f32 matrix products where windows share no pixel, on Hopper six products of bf16 where
// that is faster, and gradients of inputs as convolutions; f64 and what cuDNN refuses on a kernel of our own.
// UserError: no cuDNN.
std::unique_ptr<LibraryCall> make_convolution(CudaDevice& device, const Node& node,
                                              const std::vector<Operand>& in, const std::vector<Operand>& out,
                                              const TargetOptions& options);

// sdpa and sdpa_grad (core/ops/attention.cpp), strided with a dense last dim: bf16 and f16 on cuDNN, its
// backward pass always deterministic and cut into pieces where its workspace would grow with the square of
// the length; long causal backward passes in bf16 on Hopper on tiles of our own (attention_hopper.cpp); what
// cuDNN refuses, and f32, as products on cuBLASLt with softmax between them where that is
// faster (unfit_for_products), else on kernels of our own. UserError: no cuDNN for bf16 or f16; a head size
// above 256.
std::unique_ptr<LibraryCall> make_attention(CudaDevice& device, const Node& node,
                                            const std::vector<Operand>& in, const std::vector<Operand>& out,
                                            const TargetOptions& options);

}  // namespace lockstep::compiler::cuda
