// Element types as CUDA C++ text, and the process's modules.
#include "compiler/codegen/cuda/source/module.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <exception>
#include <optional>
#include <thread>

#include "compiler/codegen/cuda/source/nvrtc.h"
#include "core/base/error.h"
#include "core/base/log.h"

namespace lockstep::compiler::cuda {

std::string sum_type(DType dtype) {
  if (dtype == DType::f64) return "double";
  if (is_float(dtype)) return "float";
  return size_of(dtype) == 8 ? "unsigned long long" : "unsigned";
}

std::string element_text(const std::string& prefix, DType dtype) {
  std::string stored, load, store, sum = sum_type(dtype);
  switch (dtype) {
    case DType::bf16:
      stored = "unsigned short";
      load = "return __uint_as_float((unsigned)x << 16);";
      store =
          "unsigned u = __float_as_uint(x);\n"
          "  if ((u & 0x7fffffffu) > 0x7f800000u) return (unsigned short)((u >> 16) | 0x40);\n"
          "  return (unsigned short)((u + 0x7fffu + ((u >> 16) & 1)) >> 16);";
      break;
    case DType::f16:
      stored = "unsigned short";
      load = "float y; asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(y) : \"h\"(x)); return y;";
      store = "unsigned short y; asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(y) : \"f\"(x)); return y;";
      break;
    case DType::f32:
    case DType::f64:
      stored = sum;
      load = store = "return x;";
      break;
    default:
      stored = size_of(dtype) == 1 ? "unsigned char" : size_of(dtype) == 2 ? "unsigned short" : sum;
      load = str("return (", sum, ")x;");
      store = str("return (", stored, ")x;");
  }
  return str("typedef ", stored, " ", prefix, "_t;\n", "static __device__ __forceinline__ ", sum, " load_",
             prefix, "(", prefix, "_t x) {\n  ", load, "\n}\n", "static __device__ __forceinline__ ", prefix,
             "_t store_", prefix, "(", sum, " x) {\n  ", store, "\n}\n");
}

namespace {
void allow(CUfunction function, const std::string& name, int shared_bytes) {
  check(driver().FuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared_bytes),
        str("shared memory of ", name));
}
}  // namespace

SourceModule::SourceModule(CudaDevice& device, std::shared_future<std::string> code)
    : device_(device), code_(std::move(code)) {}

SourceModule::Kernel& SourceModule::kernel(const std::string& name, int shared_bytes) const {
  std::lock_guard lock(mutex_);
  Kernel& kernel = kernels_[name];
  if (shared_bytes <= kernel.shared_bytes) return kernel;
  kernel.shared_bytes = shared_bytes;
  if (kernel.function) device_.enter(), allow(kernel.function, name, shared_bytes);
  return kernel;
}

void SourceModule::finish() const {
  std::lock_guard lock(mutex_);
  device_.enter();
  if (!module_) module_ = device_.load(code_.get());
  for (auto& [name, kernel] : kernels_) {
    if (kernel.function) continue;
    const CUfunction function = module_->function(name);
    if (kernel.shared_bytes > 0) allow(function, name, kernel.shared_bytes);
    kernel.function = function;
  }
}

CUfunction SourceModule::function(const std::string& name) const {
  const Kernel& wanted = kernel(name);
  if (!wanted.function) finish();
  return wanted.function;
}

SourceKernel::operator CUfunction() const {
  LS_CHECK(module_, "a kernel without a source");
  if (const CUfunction found = kernel_->function) return found;
  module_->finish();
  return kernel_->function;
}

namespace {
// The modules of the process. Its threads must end before the objects that they use: so NVRTC is opened and
// logs are set up before it.
class SourceModules {
 public:
  SourceModules() { (void)logs::enabled("source"); }
  std::shared_ptr<const SourceModule> find(CudaDevice& device, const std::string& source,
                                           const std::string& cache_dir, const CompileWith& with) {
    std::lock_guard lock(mutex_);
    const Key key{device.properties().ordinal, source};
    auto& module = modules_[key];
    if (!module) {
      module = std::make_shared<SourceModule>(device, compiled(device, source, cache_dir, with));
      begun_.push_back(key);
    }
    return module;
  }
  void finish(int ordinal) {
    std::exception_ptr failed;
    for (const auto& [key, module] : take(ordinal)) try {
        module->finish();
      } catch (...) {
        failed = std::current_exception();
        std::lock_guard lock(mutex_);
        modules_.erase(key);
      }
    if (failed) std::rethrow_exception(failed);
  }

 private:
  using Key = std::pair<int, std::string>;
  static constexpr unsigned kMostThreads = 16;  // each rank of a host has as many

  // The modules that were begun for a device.
  std::map<Key, std::shared_ptr<const SourceModule>> take(int ordinal) {
    std::lock_guard lock(mutex_);
    std::map<Key, std::shared_ptr<const SourceModule>> out;
    std::erase_if(begun_, [&](const Key& key) {
      if (key.first == ordinal) out[key] = modules_.at(key);
      return key.first == ordinal;
    });
    return out;
  }
  std::shared_future<std::string> compiled(const CudaDevice& device, const std::string& source,
                                           const std::string& cache_dir, const CompileWith& with) {
    const std::string target = with.target.empty() ? device.target() : with.target;
    auto task = std::make_shared<std::packaged_task<std::string()>>([source, target, cache_dir, with] {
      return cached_cubins({source}, target, cache_dir, with.flags).code.at(0);
    });
    std::shared_future<std::string> code = task->get_future().share();
    if (!threads_) threads_.emplace(std::clamp(std::thread::hardware_concurrency(), 1u, kMostThreads));
    boost::asio::post(*threads_, [task] { (*task)(); });
    return code;
  }

  std::mutex mutex_;
  std::map<Key, std::shared_ptr<const SourceModule>> modules_;
  std::vector<Key> begun_;  // since the last finish() of their device
  std::optional<boost::asio::thread_pool> threads_;
};
SourceModules& source_modules() {
  static SourceModules of_process;
  return of_process;
}
}  // namespace

std::shared_ptr<const SourceModule> source_module(CudaDevice& device, const std::string& source,
                                                  const std::string& cache_dir, const CompileWith& with) {
  (void)nvrtc_version();
  return source_modules().find(device, source, cache_dir, with);
}

void finish_source_modules(CudaDevice& device) { source_modules().finish(device.properties().ordinal); }

}  // namespace lockstep::compiler::cuda
