// The doctor's check of GPUs, with CUDA's driver and libraries and NVML if present.
#include "launcher/cli/doctor/doctor.h"

#ifdef LOCKSTEP_CUDA
#include <array>

#include "core/base/error.h"
#include "core/device/cuda/driver.h"
#include "core/device/cuda/inventory.h"
#endif

namespace lockstep::launcher::cli {

#ifndef LOCKSTEP_CUDA

Findings gpu_findings() {
  return {{Health::ok, "GPU", "not in this build, which found no CUDA headers", ""}};
}

#else

namespace {
using Handle = void*;

// The NVML functions used here, by their public ABI.
struct Nvml {
  cuda::SharedLibrary library{"libnvidia-ml.so.1", "libnvidia-ml.so"};
  template <class F>
  F find(const char* name) const {
    return reinterpret_cast<F>(library.find(name));
  }
  // Reads a number of a device; nullopt if the function is missing or fails.
  template <class T, class... Before>
  std::optional<T> ask(const char* name, Handle device, Before... before) const {
    auto* call = find<int (*)(Handle, Before..., T*)>(name);
    T out{};
    return call && call(device, before..., &out) == 0 ? std::optional<T>(out) : std::nullopt;
  }
};

constexpr int kClockSm = 1, kUncorrected = 1, kVolatile = 0, kTemperatureGpu = 0;

// Throttle reasons of a GPU (nvmlClocksThrottleReasons): bit, text, and whether it indicates a fault.
struct Reason {
  unsigned long long bit;
  const char* words;
  Health health;
};
constexpr Reason kReasons[] = {{0x4, "its power limit", Health::warn},
                               {0x8, "the hardware (heat, power or supply)", Health::fail},
                               {0x20, "heat, as the driver sees it", Health::warn},
                               {0x40, "heat, as the hardware sees it", Health::fail},
                               {0x80, "the power supply's brake", Health::fail}};

void check_device(const Nvml& nvml, Handle device, const std::string& name, Findings& out) {
  const auto clock = nvml.ask<unsigned>("nvmlDeviceGetClockInfo", device, kClockSm),
             most = nvml.ask<unsigned>("nvmlDeviceGetMaxClockInfo", device, kClockSm),
             heat = nvml.ask<unsigned>("nvmlDeviceGetTemperature", device, kTemperatureGpu);
  const auto reasons = nvml.ask<unsigned long long>("nvmlDeviceGetCurrentClocksThrottleReasons", device);
  Finding clocks{Health::ok, name + " clock", "", ""};
  clocks.value = str(clock ? str(*clock, " MHz") : "not known", most ? str(" of ", *most) : "",
                     heat ? str(", ", *heat, " C") : "");
  std::string slowed;
  for (const Reason& reason : kReasons)
    if (reasons.value_or(0) & reason.bit) {
      slowed += (slowed.empty() ? "" : ", ") + std::string(reason.words);
      if (clocks.health != Health::fail) clocks.health = reason.health;
    }
  if (!slowed.empty()) clocks.value += ", slowed by " + slowed;
  clocks.mend =
      "all ranks wait for it: look at cooling, power supply and nvidia-smi -q -d PERFORMANCE, or leave "
      "it out (CUDA_VISIBLE_DEVICES)";
  out.push_back(clocks);

  if (const auto errors =
          nvml.ask<unsigned long long>("nvmlDeviceGetTotalEccErrors", device, kUncorrected, kVolatile))
    out.push_back(
        {*errors ? Health::fail : Health::ok, name + " errors",
         str(*errors, " uncorrected errors of its memory since it was started"),
         "its memory is wrong at times: reset it (nvidia-smi --gpu-reset), and have it replaced where "
         "they come back"});
  struct {
    unsigned long long total, free, used;
  } memory{};
  auto* ask_memory = nvml.find<int (*)(Handle, void*)>("nvmlDeviceGetMemoryInfo");
  if (ask_memory && ask_memory(device, &memory) == 0)
    out.push_back({memory.used > memory.total / 20 ? Health::warn : Health::ok, name + " memory",
                   str(bytes_text(static_cast<double>(memory.free)), " free of ",
                       bytes_text(static_cast<double>(memory.total))),
                   "another program holds some of it (nvidia-smi names it); a rank takes a whole GPU"});
}

void check_health(Findings& out) {
  const Nvml nvml;
  auto* init = nvml.find<int (*)()>("nvmlInit_v2");
  auto* count_of = nvml.find<int (*)(unsigned*)>("nvmlDeviceGetCount_v2");
  auto* handle_of = nvml.find<int (*)(unsigned, Handle*)>("nvmlDeviceGetHandleByIndex_v2");
  if (!init || !count_of || !handle_of || init() != 0) {
    out.push_back({Health::warn, "NVML",
                   str("cannot be used: ", nvml.library.opened() ? "it refuses" : nvml.library.why()),
                   "clocks, heat and errors of GPUs are not known; it comes with the driver"});
    return;
  }
  unsigned count = 0;
  count_of(&count);
  for (unsigned i = 0; i < count; ++i) {
    Handle device = nullptr;
    const int code = handle_of(i, &device);
    if (code != 0)
      out.push_back({Health::fail, str("GPU ", i), str("NVML has lost it (code ", code, ")"),
                     "dmesg names the Xid; reset it or start the host anew"});
    else
      check_device(nvml, device, str("GPU ", i), out);
  }
  if (auto* shutdown = nvml.find<int (*)()>("nvmlShutdown")) shutdown();
}
}  // namespace

Findings gpu_findings() {
  Findings out;
  int gpus = 0;
  const auto rows = lockstep::cuda::inventory();
  for (const auto& row : rows) gpus += row.what.starts_with("GPU ");
  const Nvml nvml;
  if (gpus == 0 && !nvml.library.opened()) {
    for (const auto& row : rows)
      if (row.what == "driver")
        return {{Health::ok, "GPU",
                 "none here (" + row.status.substr(row.status.starts_with("none: ") ? 6 : 0) + ")", ""}};
    return {{Health::ok, "GPU", "none here", ""}};
  }
  for (const auto& row : rows) {
    const bool none = row.status.starts_with("none: ") || row.status.starts_with("not usable");
    const bool older = row.status.ends_with("not used)");
    out.push_back({older || none ? Health::warn : Health::ok, row.what, row.status,
                   row.what == "NCCL" ? "several GPUs then talk through the host; install libnccl2"
                   : row.what == "cuDNN"
                       ? "attention and convolutions then run on kernels of our own; install libcudnn9"
                       : "runs on the GPU want it; see docs/cuda.md"});
  }
  check_health(out);
  return out;
}

#endif

}  // namespace lockstep::launcher::cli
