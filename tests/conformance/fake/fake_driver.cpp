// A CUDA driver without a GPU, for tests of what stands above it: memory is the host's, a stream is a thread
// with a queue. No kernels, no graphs.
#include <cuda.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "tests/conformance/fake/fake_stream.h"

using fake::FakeEvent;
using fake::FakeStream;

extern "C" {
CUresult cuInit(unsigned) { return CUDA_SUCCESS; }
CUresult cuDriverGetVersion(int* version) { return *version = 13000, CUDA_SUCCESS; }
CUresult cuDeviceGetCount(int* count) { return *count = 8, CUDA_SUCCESS; }
CUresult cuDeviceGet(CUdevice* device, int ordinal) { return *device = ordinal, CUDA_SUCCESS; }
CUresult cuDeviceGetName(char* name, int length, CUdevice) {
  std::strncpy(name, "fake", static_cast<size_t>(length));
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice) {
  *value = attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR   ? 9
           : attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR ? 0
                                                                       : 1;
  return CUDA_SUCCESS;
}
CUresult cuDeviceTotalMem(size_t* bytes, CUdevice) { return *bytes = size_t{1} << 30, CUDA_SUCCESS; }
CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  *context = reinterpret_cast<CUcontext>(static_cast<uintptr_t>(device + 1));
  return CUDA_SUCCESS;
}
CUresult cuCtxSetCurrent(CUcontext) { return CUDA_SUCCESS; }
CUresult cuGetErrorName(CUresult, const char** text) { return *text = "FAKE_ERROR", CUDA_SUCCESS; }
CUresult cuGetErrorString(CUresult, const char** text) {
  return *text = "an error of the fake driver", CUDA_SUCCESS;
}
CUresult cuMemAlloc(CUdeviceptr* data, size_t bytes) {
  *data = reinterpret_cast<CUdeviceptr>(std::aligned_alloc(256, (bytes + 255) / 256 * 256));
  return CUDA_SUCCESS;
}
CUresult cuMemFree(CUdeviceptr data) { return std::free(reinterpret_cast<void*>(data)), CUDA_SUCCESS; }
CUresult cuMemHostAlloc(void** data, size_t bytes, unsigned) {
  return *data = std::malloc(bytes), CUDA_SUCCESS;
}
CUresult cuMemFreeHost(void* data) { return std::free(data), CUDA_SUCCESS; }
CUresult cuMemGetInfo(size_t* free, size_t* total) { return *free = *total = size_t{1} << 30, CUDA_SUCCESS; }
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  fake::of(stream).push(
      [=] { std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes); });
  return CUDA_SUCCESS;
}
CUresult cuMemsetD8Async(CUdeviceptr data, unsigned char value, size_t bytes, CUstream stream) {
  fake::of(stream).push([=] { std::memset(reinterpret_cast<void*>(data), value, bytes); });
  return CUDA_SUCCESS;
}
CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned, int) {
  return *stream = reinterpret_cast<CUstream>(new FakeStream), CUDA_SUCCESS;
}
CUresult cuStreamDestroy(CUstream stream) { return delete &fake::of(stream), CUDA_SUCCESS; }
CUresult cuStreamQuery(CUstream stream) {
  return fake::of(stream).idle() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}
CUresult cuStreamIsCapturing(CUstream, CUstreamCaptureStatus* status) {
  return *status = CU_STREAM_CAPTURE_STATUS_NONE, CUDA_SUCCESS;
}
CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* data) {
  fake::of(stream).push([=] { function(data); });
  return CUDA_SUCCESS;
}
CUresult cuEventCreate(CUevent* event, unsigned) {
  return *event = reinterpret_cast<CUevent>(new FakeEvent), CUDA_SUCCESS;
}
CUresult cuEventDestroy(CUevent event) { return delete reinterpret_cast<FakeEvent*>(event), CUDA_SUCCESS; }
CUresult cuEventRecord(CUevent event, CUstream stream) {
  auto point = std::make_shared<fake::Point>();
  reinterpret_cast<FakeEvent*>(event)->point = point;
  fake::of(stream).push([point] { point->reach(); });
  return CUDA_SUCCESS;
}
CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned) {
  return cuEventRecord(event, stream);
}
CUresult cuEventElapsedTime(float* milliseconds, CUevent, CUevent) { return *milliseconds = 1, CUDA_SUCCESS; }
CUresult cuEventQuery(CUevent event) {
  auto point = reinterpret_cast<FakeEvent*>(event)->point;
  return !point || point->reached() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned) {
  if (auto point = reinterpret_cast<FakeEvent*>(event)->point)
    fake::of(stream).push([point] { point->wait(); });
  return CUDA_SUCCESS;
}
}
