// The GPU's Reductions: hand-written kernels at the speed of memory.
#pragma once

#include <memory>
#include <string>

#include "compiler/codegen/target.h"
#include "core/device/cuda/cuda_device.h"

namespace lockstep::compiler::cuda {

using namespace lockstep::cuda;  // the device and its driver, of core

// Everything that it enqueues is kernels and fills, which a graph can capture; tables travel in the kernels'
// parameters. Kernels are compiled here, and those of a tree over sources when sum() first meets it, through
// the cache in `cache_dir` ("": the default folder). Scratch for rows of more than 4096 elements is the
// object's own: use it on one stream at a time. It lives as long as the object, which must outlive graphs
// captured of it.
//
// Sums and limbs have the bits of the CPU's Reductions. The order of a row's squares is another than the
// CPU's, and depends on the row's width alone (sum_source in reductions_source.h). A negative addend of
// limbs() makes the total NaN. Copies are within the device, or with host memory from its staging().
// InternalError: more than 10 lefts, more than 129 sources, merges that do not make one tree.
std::unique_ptr<Reductions> make_reductions(CudaDevice& device, const std::string& cache_dir = {});

}  // namespace lockstep::compiler::cuda
