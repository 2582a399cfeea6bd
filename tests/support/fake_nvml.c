// A libnvidia-ml.so.1 with two GPUs, for machines that have none: GPU 0 is well, GPU 1 is hot, has lost bits of its
// memory and is used by another program.
#include <stdint.h>

static int kDevices[2];

int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 3;
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  if (index > 1) return 15;  // the GPU is lost
  *device = &kDevices[index];
  return 0;
}
static int is_hot(void* device) { return device == &kDevices[1]; }
int nvmlDeviceGetClockInfo(void* device, int kind, unsigned* mhz) {
  if (kind != 1) return 2;
  *mhz = is_hot(device) ? 900 : 1980;
  return 0;
}
int nvmlDeviceGetMaxClockInfo(void* device, int kind, unsigned* mhz) {
  if (kind != 1 || !device) return 2;
  *mhz = 1980;
  return 0;
}
int nvmlDeviceGetTemperature(void* device, int sensor, unsigned* celsius) {
  if (sensor != 0) return 2;
  *celsius = is_hot(device) ? 91 : 34;
  return 0;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* reasons) {
  *reasons = is_hot(device) ? 0x44 : 0x1;
  return 0;
}
int nvmlDeviceGetTotalEccErrors(void* device, int kind, int counter, unsigned long long* errors) {
  if (kind != 1 || counter != 0) return 2;
  *errors = is_hot(device) ? 3 : 0;
  return 0;
}
int nvmlDeviceGetMemoryInfo(void* device, uint64_t* total_free_used) {
  const uint64_t total = 80ull << 30, used = is_hot(device) ? 40ull << 30 : 1ull << 30;
  total_free_used[0] = total, total_free_used[1] = total - used, total_free_used[2] = used;
  return 0;
}
