// Library calls of the CUDA target: contractions on cuBLASLt and on our own tiles, attention and convolution
// on cuDNN, row sums on our own kernels.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compiler/codegen/library/library.h"
#include "compiler/codegen/target.h"
#include "core/device/cuda/cuda_device.h"

namespace lockstep::compiler::cuda {

using namespace lockstep::cuda;  // the device and its driver, from core

// dot and linear (core/table/contract.cpp): inputs of any strides, a dense output; large f32 products on Hopper
// use gemm_bf16x6.h. Every algorithm is chosen here, by shapes, strides and dtypes only; algorithm() names
// it. Dense arguments are aligned to 16 bytes.
std::unique_ptr<LibraryCall> make_contraction(CudaDevice& device, const Node& node,
                                              const std::vector<Operand>& in, const std::vector<Operand>& out,
                                              const TargetOptions& options);
// For tf32, bf16 and f16. The cuBLASLt kernels that load tiles with one instruction need rows of a multiple
// of 16 bytes; in tf32, other rows run at a third of the speed. Rates are those of an H200 on every device,
// because the choice decides bits. In bf16 and f16 the rate of whole rows is set below the real one, so that
// a copy must gain clearly.
ProductRows product_rows(DType dtype, const TargetOptions& options);
// CUDA C++ of the kernel `add_bias`.
std::string bias_source(DType dtype);

// index_add and embedding_grad, dense: out[r] = the sum of the rows whose id is r, in f32 for bf16 and f16
// (one rounding), else in the dtype itself (integers wrap). The order of a sum depends only on the number of
// its addends. Up to kRowPiece addends are added in order of the index. More are added in pieces of
// kRowPiece, each in order, and then the pieces in order. Ids outside [0, rows) add nothing.
std::unique_ptr<LibraryCall> make_row_sums(CudaDevice& device, const Node& node,
                                           const std::vector<Operand>& in, const std::vector<Operand>& out,
                                           const TargetOptions& options);
inline constexpr int kRowPiece = 64;
// CUDA C++ of its kernels.
std::string row_sums_source(DType dtype);
// CUDA C++ of the kernels that sort ids: digits, scan, scatter (blocks of 256 threads, 2048 ids each),
// bounds.
std::string row_sort_source();

// quantize, its halves and scaled_mm (core/table/float8.cpp), dense: our own kernels, and cuBLASLt. UserError:
// a GPU below compute capability 8.9; scales of rows on a capability other than 9.0, or with a libcublas
// before 12.9.
std::unique_ptr<LibraryCall> make_float8(CudaDevice& device, const Node& node, const std::vector<Operand>& in,
                                         const std::vector<Operand>& out, const TargetOptions& options);
// CUDA C++ of the kernels `quantize`, `quantize_rowwise`, `cast_float8` and `transpose_float8`.
std::string quantize_source(DType from, DType to);

// Whether a convolution runs faster on tensors stored channels last. True on tensor cores, whose kernels are
// made for that layout, and for depthwise convolutions. In plain f32 it is true if most of the graph's
// convolutions are matrix products.
bool wants_channels_last(const Graph& graph, const Node& node, const Properties& device,
                         const TargetOptions& options);
// convolution and its gradients (core/table/convolution.cpp), dense:
//   - cuDNN's deterministic engines, which add in f32;
//   - in plain f32: matrix products if windows share no pixel, six bf16 products on Hopper if that is faster,
//     and gradients of inputs as convolutions;
//   - our own kernel for f64 and for shapes that cuDNN refuses.
// UserError: no cuDNN.
std::unique_ptr<LibraryCall> make_convolution(CudaDevice& device, const Node& node,
                                              const std::vector<Operand>& in, const std::vector<Operand>& out,
                                              const TargetOptions& options);

// sdpa and sdpa_grad (core/table/attention.cpp), strided with a dense last dim:
//   - bf16 and f16 on cuDNN; its backward pass is always deterministic, and cut into pieces, since its
//     workspace would else grow with the square of the length;
//   - long causal backward passes in bf16 on Hopper on our own tiles (attention/hopper.cpp);
//   - shapes that cuDNN refuses, and f32, as products on cuBLASLt with softmax between them if that is faster
//     (unfit_for_products), else on our own kernels.
// UserError: no cuDNN for bf16 or f16; a head size above 256.
std::unique_ptr<LibraryCall> make_attention(CudaDevice& device, const Node& node,
                                            const std::vector<Operand>& in, const std::vector<Operand>& out,
                                            const TargetOptions& options);

}  // namespace lockstep::compiler::cuda
