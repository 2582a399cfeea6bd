// Kernels written by hand, as CUDA C++ text: element types, and modules compiled once per process.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/device/cuda/cuda_device.h"
#include "core/types/dtype.h"

namespace lockstep::compiler::cuda {

using namespace lockstep::cuda;  // the device and its driver, of core

// Defines, after `prefix` (for example "In"): the stored type prefix_t, load_prefix(value) to the type that
// sums are kept in and store_prefix(sum) back: float for f32, bf16 and f16 (rounded to nearest even), double
// for f64, unsigned integers that wrap for the rest.
std::string element_text(const std::string& prefix, DType dtype);
// The type that sums of this dtype are kept in: "float", "double", "unsigned", "unsigned long long".
std::string sum_type(DType dtype);

// How a text is compiled where the device's own target and the usual flags will not do.
struct CompileWith {
  std::string target = {};              // "sm_90a": instructions that only this generation has
  std::vector<std::string> flags = {};  // further ones of NVRTC
};

// The text compiled for the device (or from the kernel cache, see cached_cubins) and loaded; equal text on
// one device gives one module, for the life of the process. Thread-safe.
std::shared_ptr<const Module> source_module(CudaDevice& device, const std::string& source,
                                            const std::string& cache_dir = {}, const CompileWith& with = {});

}  // namespace lockstep::compiler::cuda
