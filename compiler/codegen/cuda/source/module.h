// Hand-written kernels as CUDA C++ text: element types, and modules that are compiled once per process, in
// parallel.
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

using namespace lockstep::cuda;  // the device and its driver, from core

// Defines, for `prefix` (for example "In"), the stored type prefix_t, load_prefix(value), which converts to
// the type of sums, and store_prefix(sum), which converts back. Sums are float for f32, bf16 and f16 (rounded
// to nearest even), double for f64, and unsigned integers that wrap for the rest.
std::string element_text(const std::string& prefix, DType dtype);
// The type of sums of this dtype: "float", "double", "unsigned", "unsigned long long".
std::string sum_type(DType dtype);

// How a source is compiled if the device's own target and the usual flags do not suffice.
struct CompileWith {
  std::string target = {};              // "sm_90a": instructions that only this generation has
  std::vector<std::string> flags = {};  // additional NVRTC flags
};

// The kernels of a source, compiled by a thread of a pool while other threads continue.
class SourceModule {
 public:
  struct Kernel {
    std::atomic<CUfunction> function = nullptr;
    int shared_bytes = 0;
  };
  SourceModule(CudaDevice& device, std::shared_future<std::string> code);
  // A kernel that will be launched, with that many bytes of dynamic shared memory; the largest request
  // counts. Thread-safe.
  Kernel& kernel(const std::string& name, int shared_bytes = 0) const;
  // Waits until the source is compiled, loads it and finds the requested kernels. It runs on the caller's
  // thread, because the pool's threads have no device. UserError if the source does not compile.
  // InternalError if it has no such kernel, or if the device has too little shared memory for its blocks.
  // Thread-safe.
  void finish() const;
  CUfunction function(const std::string& name) const;  // of one kernel; throws as finish() does

 private:
  CudaDevice& device_;
  const std::shared_future<std::string> code_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const Module> module_;
  mutable std::map<std::string, Kernel> kernels_;
};

// A kernel of a source. Its first launch waits for the compilation, unless finish_source_modules() was called
// before.
class SourceKernel {
 public:
  SourceKernel() = default;
  SourceKernel(std::shared_ptr<const SourceModule> module, const std::string& name, int shared_bytes = 0)
      : module_(std::move(module)), kernel_(&module_->kernel(name, shared_bytes)) {}
  operator CUfunction() const;  // throws as SourceModule::finish does

 private:
  std::shared_ptr<const SourceModule> module_;
  SourceModule::Kernel* kernel_ = nullptr;
};

// Starts compiling a source for the device, or reading it from the kernel cache (cached_cubins). As many run
// at a time as there are cores, at most 16. Equal source on one device gives one module, for the life of the
// process. Thread-safe. UserError if there is no NVRTC.
std::shared_ptr<const SourceModule> source_module(CudaDevice& device, const std::string& source,
                                                  const std::string& cache_dir = {},
                                                  const CompileWith& with = {});
// Finishes all modules that source_module started for the device since the last call. If some fail, it throws
// the error of one of them after it has finished the others. A source that failed is compiled again when it
// is next requested.
void finish_source_modules(CudaDevice& device);

}  // namespace lockstep::compiler::cuda
