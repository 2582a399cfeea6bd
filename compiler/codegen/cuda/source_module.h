// Kernels written by hand, as CUDA C++ text: element types, and modules compiled once per process, side by
// side.
#pragma once

#include <atomic>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
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

// The kernels of a source, which a thread of a pool compiles while others go on.
class SourceModule {
 public:
  struct Kernel {
    std::atomic<CUfunction> function = nullptr;
    int shared_bytes = 0;
  };
  SourceModule(CudaDevice& device, std::shared_future<std::string> code);
  // A kernel that somebody will launch, with dynamic shared memory of so many bytes; the most that was asked
  // for counts. Thread-safe.
  Kernel& kernel(const std::string& name, int shared_bytes = 0) const;
  // Waits until the source is compiled, loads it and finds the kernels that were asked for: on the caller's
  // thread, since the pool's know no device. UserError when it does not compile; InternalError when it has no
  // such kernel, or the device not as much shared memory for its blocks. Thread-safe.
  void finish() const;
  CUfunction function(const std::string& name) const;  // of one kernel; throws as finish()

 private:
  CudaDevice& device_;
  const std::shared_future<std::string> code_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const Module> module_;
  mutable std::map<std::string, Kernel> kernels_;
};

// A kernel of a source, which is waited for where it is launched first, unless finish_source_modules() was
// called before.
class SourceKernel {
 public:
  SourceKernel() = default;
  SourceKernel(std::shared_ptr<const SourceModule> module, const std::string& name, int shared_bytes = 0)
      : module_(std::move(module)), kernel_(&module_->kernel(name, shared_bytes)) {}
  operator CUfunction() const;  // throws as SourceModule::finish

 private:
  std::shared_ptr<const SourceModule> module_;
  SourceModule::Kernel* kernel_ = nullptr;
};

// Begins to compile a source for the device, or to read it from the kernel cache (cached_cubins), as many at
// a time as there are cores, at most 16; equal source on one device gives one module, for the life of the
// process. Thread-safe. UserError where there is no NVRTC.
std::shared_ptr<const SourceModule> source_module(CudaDevice& device, const std::string& source,
                                                  const std::string& cache_dir = {},
                                                  const CompileWith& with = {});
// Finishes all that source_module began for the device since the last call. Throws what one of them throws,
// after the others; a source that failed is compiled anew when it is asked for again.
void finish_source_modules(CudaDevice& device);

}  // namespace lockstep::compiler::cuda
