// Products of f32 on Hopper's tensor cores, as exact as f32's own: six products of bf16, with sums in f32.
#pragma once

#include <memory>
#include <string>

#include "compiler/codegen/cuda/gemm.h"

namespace lockstep::compiler::cuda {

// Why a product cannot run so on this device; "" where it can.
std::string unfit_for_bf16x6(const GemmOptions& options, const Properties& device);
// Whether it is faster than cuBLASLt's of f32, by its sizes, whether batches share an operand, and an H200's
// rates: the choice decides bits.
bool pays_bf16x6(const GemmOptions& options);
// The product of an A and B whose elements are each the sum of three numbers of bf16, exactly so where they
// are of 2^-110 and more. Its error is that of sums in f32 of k / 64 terms: against the sum of |a b| it was
// below 2^-20 up to k = 50,000. Where an operand is infinite, or a sum overflows, the result is not finite,
// and may be NaN where f32's is an infinity. The workspace holds parts of A or B of at most `most_parts`
// bytes (but of 128 rows), of the other all, and pieces of the sums: 3.5 GiB at most. Deterministic; no bit
// depends on `most_parts` but through the pieces.
inline constexpr int64_t kBf16x6Parts = int64_t{1} << 30;
std::unique_ptr<Gemm> make_bf16x6(CudaDevice& device, const GemmOptions& options,
                                  const std::string& cache_dir, int64_t most_parts = kBf16x6Parts);
// That where it fits and pays, else cuBLASLt's (make_gemm); null where that has none.
std::unique_ptr<Gemm> make_product(CudaDevice& device, const GemmOptions& options,
                                   const std::string& cache_dir);

}  // namespace lockstep::compiler::cuda
