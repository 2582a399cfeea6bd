// A CUDA driver for tests of errors: its devices are host memory, its streams run at once, and it fails as the environment asks:
// FAKE_CUDA="devices=1 major=9 init=0 memory=1048576 image=0 query=0", each a number (results are CUresult values, memory is bytes).
// Entry points are declared without their arguments' types; the symbol names are those that cuda.h expands to.
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static long asked(const char* name, long fallback) {
  const char* text = getenv("FAKE_CUDA");
  char key[32];
  snprintf(key, sizeof key, "%s=", name);
  const char* at = text ? strstr(text, key) : NULL;
  return at ? atol(at + strlen(key)) : fallback;
}
static long used = 0;

int cuInit(unsigned flags) { return (void)flags, (int)asked("init", 0); }
int cuDriverGetVersion(int* version) { return *version = (int)asked("version", 12040), 0; }
int cuDeviceGetCount(int* count) { return *count = (int)asked("devices", 1), 0; }
int cuDeviceGet(int* device, int ordinal) { return *device = ordinal, 0; }
int cuDeviceGetName(char* name, int size, int device) { return (void)device, snprintf(name, (size_t)size, "Fake 7000"), 0; }
int cuDeviceGetAttribute(int* value, int which, int device) {
  (void)device;
  *value = which == 75 ? (int)asked("major", 9) : which == 76 ? 0 : 4;
  return 0;
}
int cuDeviceTotalMem_v2(size_t* bytes, int device) { return (void)device, *bytes = (size_t)asked("memory", 1 << 20), 0; }
int cuDevicePrimaryCtxRetain(void** context, int device) { return (void)device, *context = &used, (int)asked("context", 0); }
int cuDevicePrimaryCtxRelease_v2(int device) { return (void)device, 0; }
int cuCtxSetCurrent(void* context) { return (void)context, 0; }
int cuCtxSynchronize(void) { return 0; }
int cuGetErrorName(int result, const char** name) { return *name = result == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR_FAKE", 0; }
int cuGetErrorString(int result, const char** text) { return (void)result, *text = "as the test asked", 0; }
int cuMemAlloc_v2(void** data, size_t bytes) {
  if (used + (long)bytes > asked("memory", 1 << 20)) return 2;
  used += (long)bytes;
  *data = aligned_alloc(256, bytes);
  return 0;
}
int cuMemFree_v2(void* data) { return free(data), 0; }
int cuMemHostAlloc(void** data, size_t bytes, unsigned flags) {
  (void)flags;
  if ((long)bytes > asked("memory", 1 << 20)) return 2;
  *data = aligned_alloc(256, bytes);
  return 0;
}
int cuMemFreeHost(void* data) { return free(data), 0; }
int cuMemGetInfo_v2(size_t* left, size_t* total) {
  *total = (size_t)asked("memory", 1 << 20);
  *left = *total - (size_t)used;
  return 0;
}
int cuMemcpyAsync(void* to, const void* from, size_t bytes, void* stream) { return (void)stream, memmove(to, from, bytes), 0; }
int cuMemsetD8Async(void* data, unsigned char value, size_t bytes, void* stream) { return (void)stream, memset(data, value, bytes), 0; }
int cuStreamCreateWithPriority(void** stream, unsigned flags, int priority) { return (void)flags, (void)priority, *stream = &used, 0; }
int cuStreamDestroy_v2(void* stream) { return (void)stream, 0; }
int cuStreamSynchronize(void* stream) { return (void)stream, 0; }
int cuStreamWaitEvent(void* stream, void* event, unsigned flags) { return (void)stream, (void)event, (void)flags, 0; }
int cuStreamQuery(void* stream) { return (void)stream, (int)asked("query", 0); }
int cuStreamBeginCapture_v2(void* stream, int mode) { return (void)stream, (void)mode, 801; }
int cuStreamEndCapture(void* stream, void** graph) { return (void)stream, *graph = NULL, 801; }
int cuStreamIsCapturing(void* stream, int* status) { return (void)stream, *status = 0, 0; }
int cuLaunchHostFunc(void* stream, void (*work)(void*), void* data) { return (void)stream, work(data), 0; }
int cuEventCreate(void** event, unsigned flags) { return (void)flags, *event = &used, 0; }
int cuEventDestroy_v2(void* event) { return (void)event, 0; }
int cuEventRecord(void* event, void* stream) { return (void)event, (void)stream, 0; }
int cuEventRecordWithFlags(void* event, void* stream, unsigned flags) { return (void)event, (void)stream, (void)flags, 0; }
int cuEventQuery(void* event) { return (void)event, 0; }
int cuEventSynchronize(void* event) { return (void)event, 0; }
int cuEventElapsedTime(float* ms, void* from, void* to) { return (void)from, (void)to, *ms = 0, 0; }
int cuGraphInstantiateWithFlags(void** exec, void* graph, unsigned long long flags) { return (void)exec, (void)graph, (void)flags, 801; }
#ifndef FAKE_CUDA_WITHOUT_GRAPHS
int cuGraphLaunch(void* exec, void* stream) { return (void)exec, (void)stream, 801; }
#endif
int cuGraphDestroy(void* graph) { return (void)graph, 0; }
int cuGraphExecDestroy(void* exec) { return (void)exec, 0; }
int cuGraphGetNodes(void* graph, void* nodes, size_t* count) { return (void)graph, (void)nodes, *count = 0, 0; }
int cuModuleLoadData(void** module, const void* image) { return (void)image, *module = &used, (int)asked("image", 0); }
int cuModuleUnload(void* module) { return (void)module, 0; }
int cuModuleGetFunction(void** function, void* module, const char* name) { return (void)function, (void)module, (void)name, 500; }
int cuFuncSetAttribute(void* function, int which, int value) { return (void)function, (void)which, (void)value, 0; }
int cuFuncGetAttribute(int* value, int which, void* function) { return (void)which, (void)function, *value = 0, 0; }
int cuLaunchKernel(void* function) { return (void)function, 98; }
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void* function, int block, size_t shared) {
  return (void)function, (void)block, (void)shared, *blocks = 1, 0;
}
