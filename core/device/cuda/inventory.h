// Lists the CUDA components of this machine for `trainrun env` and for error reports. Opens libraries,
// creates no context on any device.
#pragma once

#include <string>
#include <vector>

namespace lockstep::cuda {

struct Found {
  std::string what;    // "driver", "GPU 0", "NVRTC", "cuBLASLt", "cuDNN", "NCCL"
  std::string status;  // a version, a device in words, or "none: " and why
};
// The driver, a row per device, and the libraries. Never throws for an absent component.
std::vector<Found> inventory();
// "GPU 1 (NVIDIA H200, PCI 0000:17:00.0)": a device of this process with the PCI address that nvidia-smi
// shows. "GPU 1" if the driver reports no more.
std::string place_of(int ordinal);

}  // namespace lockstep::cuda
