// Products of f32 on Hopper's tensor cores, as exact as f32's own: six products of bf16, with sums in f32.
#pragma once

#include <memory>
#include <string>

#include "compiler/codegen/cuda/matmul/gemm.h"

namespace lockstep::compiler::cuda {

// Why a product cannot run like this on this device; "" if it can.
std::string unfit_for_bf16x6(const GemmOptions& options, const Properties& device);
// Whether it is faster than cuBLASLt's f32 product, by its sizes, whether batches share an operand, and an
// H200's rates on every device, because the choice decides bits.
bool pays_bf16x6(const GemmOptions& options);
// The product of A and B, each of whose elements is split into three bf16 numbers. The split is exact for
// magnitudes of 2^-110 and more. The error is that of f32 sums of k / 64 terms: relative to the sum of |a b|
// it was below 2^-20 up to k = 50,000. If an operand is infinite or a sum overflows, the result is not
// finite, and it may be NaN where f32 gives an infinity.
// The workspace has at most 3.5 GiB: parts of A or B of at most `most_parts` bytes (but at least 128 rows),
// all parts of the other operand, and pieces of the sums. Deterministic; bits depend on `most_parts` only
// through the pieces.
inline constexpr int64_t kBf16x6Parts = int64_t{1} << 30;
std::unique_ptr<Gemm> make_bf16x6(CudaDevice& device, const GemmOptions& options,
                                  const std::string& cache_dir, int64_t most_parts = kBf16x6Parts);
// make_bf16x6 if it fits and is faster, else make_gemm; null if that has no algorithm.
std::unique_ptr<Gemm> make_product(CudaDevice& device, const GemmOptions& options,
                                   const std::string& cache_dir);

}  // namespace lockstep::compiler::cuda
