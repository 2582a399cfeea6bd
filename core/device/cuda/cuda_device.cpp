// CudaDevice through the driver: the primary context, memory, copies, modules, launches.
#include "core/device/cuda/cuda_device.h"

#include <atomic>
#include <cstring>
#include <map>
#include <mutex>

#include "core/base/error.h"

namespace lockstep::cuda {

namespace {

std::string size_text(int64_t bytes) { return bytes_text(static_cast<double>(bytes)); }
size_t rounded(size_t bytes) { return bytes ? (bytes + 255) / 256 * 256 : 256; }
CUdeviceptr device_pointer(const void* data) { return reinterpret_cast<CUdeviceptr>(data); }

class DeviceAllocator : public Allocator {
 public:
  DeviceAllocator(CUcontext context, std::string device) : context_(context), device_(std::move(device)) {}
  void* allocate(size_t bytes) override {
    check(driver().CtxSetCurrent(context_), "cuCtxSetCurrent");
    std::lock_guard lock(mutex_);
    if (!stream_) stream_ = make_cuda_stream(context_);
    CUdeviceptr data = 0;
    const CUresult result = driver().MemAlloc(&data, rounded(bytes));
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
      size_t free = 0, total = 0;
      driver().MemGetInfo(&free, &total);
      throw UserError(str(
          "out of memory on ", device_, ": asked for ", bytes_text(static_cast<double>(bytes)), " (", bytes,
          " bytes), ", size_text(static_cast<int64_t>(free)), " of ", size_text(static_cast<int64_t>(total)),
          " are free; use a smaller micro-batch or more ranks, and see in nvidia-smi what else uses the "
          "device"));
    }
    check(result, str("cuMemAlloc of ", bytes, " bytes"));
    // Zeroing has its own stream, so it is not captured with the caller's work and does not wait for it.
    const CUresult zeroed = driver().MemsetD8Async(data, 0, rounded(bytes), stream_of(*stream_));
    if (zeroed != CUDA_SUCCESS) driver().MemFree(data);
    check(zeroed, "zeroing new memory");
    stream_->synchronize();
    return reinterpret_cast<void*>(data);
  }
  void release(void* data, size_t) noexcept override {
    driver().CtxSetCurrent(context_);
    driver().MemFree(device_pointer(data));
  }

 private:
  CUcontext context_;
  std::string device_;
  std::mutex mutex_;
  std::unique_ptr<Stream> stream_;
};

class PinnedAllocator : public Allocator {
 public:
  explicit PinnedAllocator(CUcontext context) : context_(context) {}
  void* allocate(size_t bytes) override {
    check(driver().CtxSetCurrent(context_), "cuCtxSetCurrent");
    void* data = nullptr;
    const CUresult result = driver().MemHostAlloc(&data, rounded(bytes), CU_MEMHOSTALLOC_PORTABLE);
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
      throw UserError(str("out of host memory: ", bytes_text(static_cast<double>(bytes)), " (", bytes,
                          " bytes) could not be pinned for copies to the GPU; use a smaller micro-batch, or "
                          "give the job more host memory"));
    check(result, str("cuMemHostAlloc of ", bytes, " bytes"));
    std::memset(data, 0, rounded(bytes));
    return data;
  }
  void release(void* data, size_t) noexcept override {
    driver().CtxSetCurrent(context_);
    driver().MemFreeHost(data);
  }

 private:
  CUcontext context_;
};

class LoadedModule : public Module {
 public:
  LoadedModule(CUcontext context, const std::string& cubin, const Properties& device) : context_(context) {
    check(driver().CtxSetCurrent(context_), "cuCtxSetCurrent");
    const CUresult result = driver().ModuleLoadData(&module_, cubin.data());
    if (result == CUDA_ERROR_NO_BINARY_FOR_GPU || result == CUDA_ERROR_UNSUPPORTED_PTX_VERSION ||
        result == CUDA_ERROR_INVALID_IMAGE || result == CUDA_ERROR_INVALID_PTX)
      throw UserError(str("the kernels' machine code (", cubin.size(), " bytes) is not for GPU ",
                          device.ordinal, " (", device.name, ", compute capability ", device.major, ".",
                          device.minor, ", driver ", version_text(device.driver_version),
                          "): run on GPUs of one kind, with a driver at least as new as NVRTC"));
    check(result, "loading kernels");
  }
  ~LoadedModule() override {
    driver().CtxSetCurrent(context_);
    driver().ModuleUnload(module_);
  }
  CUfunction function(const std::string& name) const override {
    std::lock_guard lock(mutex_);
    auto found = functions_.find(name);
    if (found != functions_.end()) return found->second;
    check(driver().CtxSetCurrent(context_), "cuCtxSetCurrent");
    CUfunction function = nullptr;
    const CUresult result = driver().ModuleGetFunction(&function, module_, name.c_str());
    LS_CHECK(result != CUDA_ERROR_NOT_FOUND, "no kernel ", name, " in the module");
    check(result, str("cuModuleGetFunction of ", name));
    return functions_[name] = function;
  }

 private:
  CUcontext context_;
  CUmodule module_ = nullptr;
  mutable std::mutex mutex_;
  mutable std::map<std::string, CUfunction> functions_;
};

class OpenedDevice : public CudaDevice {
 public:
  OpenedDevice(CUcontext context, Properties properties)
      : context_(context),
        properties_(std::move(properties)),
        memory_(context, str("GPU ", properties_.ordinal, " (", properties_.name, ")")),
        staging_(context) {}

  std::string kind() const override { return "cuda"; }
  std::string describe() const override {
    return str(properties_.name, ", compute capability ", properties_.major, ".", properties_.minor, ", ",
               properties_.multiprocessors, " multiprocessors, driver ",
               version_text(properties_.driver_version));
  }
  bool addressable() const override { return false; }
  Allocator& memory() override { return memory_; }
  Allocator& staging() override { return staging_; }
  DeviceMemory memory_info() override {
    enter();
    size_t free = 0, total = 0;
    check(driver().MemGetInfo(&free, &total), "cuMemGetInfo");
    return {static_cast<int64_t>(free), static_cast<int64_t>(total)};
  }
  std::unique_ptr<Stream> make_stream() override { return make_cuda_stream(context_); }
  std::unique_ptr<Stream> make_first_stream() override { return make_cuda_stream(context_, true); }
  void copy(void* to, const void* from, size_t bytes, Stream& stream) override {
    if (to == from || bytes == 0) return;
    check(driver().MemcpyAsync(device_pointer(to), device_pointer(from), bytes, handle(stream)),
          str("a copy of ", bytes, " bytes"));
  }
  void zero(void* data, size_t bytes, Stream& stream) override {
    if (bytes == 0) return;
    check(driver().MemsetD8Async(device_pointer(data), 0, bytes, handle(stream)),
          str("zeroing ", bytes, " bytes"));
  }
  std::unique_ptr<CapturedWork> capture(Stream& stream, const std::function<void()>& enqueue) override {
    return capture_cuda(context_, stream, enqueue);
  }
  void enter() override { check(driver().CtxSetCurrent(context_), "cuCtxSetCurrent"); }
  ContentSums* content_sums() override { return sums_.load(); }
  void take_content_sums(std::unique_ptr<ContentSums> sums) override { keep(sums_, std::move(sums)); }
  Draws* draws() override { return draws_.load(); }
  void take_draws(std::unique_ptr<Draws> draws) override { keep(draws_, std::move(draws)); }

  const Properties& properties() const override { return properties_; }
  std::string target() const override { return str("sm_", properties_.major, properties_.minor); }
  std::shared_ptr<const Module> load(const std::string& cubin) const override {
    return std::make_shared<LoadedModule>(context_, cubin, properties_);
  }

 private:
  static CUstream handle(Stream& stream) {
    const CUstream native = stream_of(stream);
    LS_CHECK(native, "work of a CUDA device on a stream of another device");
    return native;
  }

  CUcontext context_;
  Properties properties_;
  DeviceAllocator memory_;
  PinnedAllocator staging_;
  // Keeps the first object for the life of the process.
  template <class T>
  static void keep(std::atomic<T*>& at, std::unique_ptr<T> made) {
    T* none = nullptr;
    if (at.compare_exchange_strong(none, made.get())) (void)made.release();
  }
  std::atomic<ContentSums*> sums_ = nullptr;
  std::atomic<Draws*> draws_ = nullptr;
};

std::shared_ptr<CudaDevice> open_new(int ordinal) {
  const Driver& cu = driver();
  std::string why;
  if (!available(&why)) throw UserError(why);
  const int count = device_count();
  if (ordinal < 0 || ordinal >= count)
    throw UserError(str("there is no GPU ", ordinal, ": this process sees ", count,
                        count == 1 ? " GPU, number 0" : str(" GPUs, numbers 0 to ", count - 1), " (",
                        visible_devices(), "); start at most ", count, count == 1 ? " rank" : " ranks",
                        " on this machine, or show it more GPUs"));
  CUdevice device = 0;
  check(cu.DeviceGet(&device, ordinal), "cuDeviceGet");
  Properties out;
  out.ordinal = ordinal;
  char name[256] = {};
  check(cu.DeviceGetName(name, sizeof name - 1, device), "cuDeviceGetName");
  out.name = name;
  auto attribute = [&](CUdevice_attribute which) {
    int value = 0;
    check(cu.DeviceGetAttribute(&value, which, device), "cuDeviceGetAttribute");
    return value;
  };
  out.major = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  out.minor = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  if (out.major < 8)
    throw UserError(str("GPU ", ordinal, " (", out.name, ") has compute capability ", out.major, ".",
                        out.minor,
                        "; Lockstep needs 8.0 or higher (bf16 matrix units): use an A100, a GeForce RTX 30 "
                        "or anything newer, or train "
                        "with train.device \"cpu\""));
  out.multiprocessors = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  out.shared_per_block = attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  out.l2_bytes = attribute(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  size_t memory = 0;
  check(cu.DeviceTotalMem(&memory, device), "cuDeviceTotalMem");
  out.memory = static_cast<int64_t>(memory);
  check(cu.DriverGetVersion(&out.driver_version), "cuDriverGetVersion");
  CUcontext context = nullptr;
  const CUresult retained = cu.DevicePrimaryCtxRetain(&context, device);
  if (retained == CUDA_ERROR_OUT_OF_MEMORY)
    throw UserError(str("GPU ", ordinal, " (", out.name, ", ", size_text(out.memory),
                        ") has no memory left for a context; see in nvidia-smi what uses it"));
  check(retained, str("opening GPU ", ordinal, " (", out.name, ")"));
  check(cu.CtxSetCurrent(context), "cuCtxSetCurrent");
  return std::make_shared<OpenedDevice>(context, std::move(out));
}

}  // namespace

std::shared_ptr<CudaDevice> open_device(int ordinal) {
  // Never destroyed: the driver may end before the statics of this file.
  static std::mutex mutex;
  static auto& opened = *new std::map<int, std::shared_ptr<CudaDevice>>;
  std::lock_guard lock(mutex);
  auto found = opened.find(ordinal);
  if (found != opened.end()) {
    found->second->enter();
    return found->second;
  }
  return opened[ordinal] = open_new(ordinal);
}

void launch(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block,
            unsigned shared_bytes, Stream& stream, void** args, const std::string& what) {
  if (grid_x == 0 || grid_y == 0 || grid_z == 0) return;
  const CUstream native = stream_of(stream);
  LS_CHECK(native, "kernel ", what, " on a stream of another device");
  check(driver().LaunchKernel(function, grid_x, grid_y, grid_z, block, 1, 1, shared_bytes, native, args,
                              nullptr),
        what);
}

}  // namespace lockstep::cuda
