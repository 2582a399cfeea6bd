// Opens the CUDA driver at run time, so that the same program starts on a machine without it.
#pragma once

#include <cuda.h>

#include <string>

namespace lockstep::cuda {

// A shared library, opened by the first of these names that loads; it stays open for the life of the process.
class SharedLibrary {
 public:
  explicit SharedLibrary(std::initializer_list<const char*> names);
  bool opened() const { return handle_ != nullptr; }
  const std::string& why() const { return why_; }  // why it could not be opened: the loader's words
  void* find(const char* symbol) const;            // null if absent
  void* native() const { return handle_; }         // what dlopen gave

 private:
  void* handle_ = nullptr;
  std::string why_;
};

// Entry points of libcuda.so.1 that Lockstep calls, by the names of the driver API without "cu". A driver
// older than 12.0 has no TensorMapEncode...; every driver that is taken has the others.
struct Driver {
  // clang-format off
#define LS_CUDA_DRIVER(X) \
  X(Init) X(DriverGetVersion) X(DeviceGetCount) X(DeviceGet) X(DeviceGetName) X(DeviceGetAttribute) \
  X(DeviceTotalMem) X(DevicePrimaryCtxRetain) X(DevicePrimaryCtxRelease) X(CtxSetCurrent) \
  X(CtxSynchronize) X(GetErrorName) X(GetErrorString) X(MemAlloc) X(MemFree) X(MemHostAlloc) \
  X(MemFreeHost) X(MemGetInfo) X(MemcpyAsync) X(MemsetD8Async) X(StreamCreateWithPriority) \
  X(StreamDestroy) X(StreamSynchronize) X(StreamWaitEvent) X(StreamQuery) X(StreamBeginCapture) \
  X(StreamEndCapture) X(StreamIsCapturing) X(LaunchHostFunc) X(EventCreate) X(EventDestroy) \
  X(EventRecord) X(EventRecordWithFlags) X(EventQuery) X(EventSynchronize) X(EventElapsedTime) \
  X(GraphInstantiateWithFlags) X(GraphLaunch) X(GraphDestroy) X(GraphExecDestroy) X(GraphGetNodes) \
  X(ModuleLoadData) X(ModuleUnload) X(ModuleGetFunction) X(FuncSetAttribute) X(FuncGetAttribute) \
  X(LaunchKernel) X(OccupancyMaxActiveBlocksPerMultiprocessor) X(TensorMapEncodeTiled) \
  X(TensorMapEncodeIm2col)
// clang-format on
#define LS_CUDA_DECLARE(name) decltype(&::cu##name) name = nullptr;
  LS_CUDA_DRIVER(LS_CUDA_DECLARE)
#undef LS_CUDA_DECLARE
};

// The driver's table. UserError saying why when there is no driver, or it is too old for this build.
const Driver& driver();
// Whether there is a driver with at least one device; else `why` says what is missing. Never throws.
bool available(std::string* why = nullptr);
int device_count();  // 0 without a driver
// For messages: "13.0" for 13000; "CUDA_VISIBLE_DEVICES is "0,1"", or that the variable is not set.
std::string version_text(int version);
std::string visible_devices();
// Throws for anything but CUDA_SUCCESS. UserError when memory is out; PeerError when the device is lost (a
// fault in a kernel, a bus error); else InternalError. `what` names the call or the kernel.
void check(CUresult result, const std::string& what);

}  // namespace lockstep::cuda
