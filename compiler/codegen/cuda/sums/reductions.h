// The GPU's Reductions: hand-written kernels at the speed of memory.
#pragma once

#include <memory>
#include <string>

#include "compiler/codegen/target.h"
#include "core/device/cuda/cuda_device.h"

namespace lockstep::compiler::cuda {

using namespace lockstep::cuda;  // the device and its driver, from core

// Enqueues only kernels and fills, which a graph can capture; tables are passed in the kernels' parameters.
// Kernels are compiled by this call, those of a tree over sources at its first sum(), through the cache in
// `cache_dir` ("": the default folder). Scratch for rows of more than 4096 elements belongs to the object:
// use it on one stream at a time. The object must outlive graphs captured from it.
//
// Sums and limbs have the bits of the CPU's Reductions. A row's squares are added in another order than the
// CPU's, which depends on the row's width only (sum_source in reductions_source.h). A negative addend of
// limbs() makes the total NaN. Copies are within the device, or to and from host memory of its staging().
// InternalError: more than 10 lefts, more than 129 sources, merges that do not form one tree.
std::unique_ptr<Reductions> make_reductions(CudaDevice& device, const std::string& cache_dir = {});

}  // namespace lockstep::compiler::cuda
