// A contraction of any strides and any dtype as a kernel of our own, for shapes that no library product
// expresses and for small odd cases.
#pragma once

#include <memory>
#include <string>

#include "compiler/codegen/cuda/matmul/contraction_plan.h"

namespace lockstep::compiler::cuda {

// CUDA C++ of the kernel `contract`: sums in order of k, in f32 (f64 for f64), then the bias, then one
// rounding.
std::string contraction_loop_source(DType in, DType out);
std::unique_ptr<LibraryCall> make_contraction_loop(CudaDevice& device, const ContractionPlan& plan,
                                                   const std::string& cache_dir);

// The most dims of one role that the kernel takes.
inline constexpr int kLoopDims = 6;

}  // namespace lockstep::compiler::cuda
