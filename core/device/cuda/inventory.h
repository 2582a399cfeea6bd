// What of CUDA this machine has: for `trainrun env` and for reports of errors. Opens libraries, makes no
// context on any device.
#pragma once

#include <string>
#include <vector>

namespace lockstep::cuda {

struct Found {
  std::string what;    // "driver", "GPU 0", "NVRTC", "cuBLASLt", "cuDNN", "NCCL"
  std::string status;  // a version, a device in words, or "none: " and why
};
// The driver, a row per device, and the libraries. Never throws for what is absent.
std::vector<Found> inventory();
// "GPU 1 (NVIDIA H200, PCI 0000:17:00.0)": a device of this process, and where nvidia-smi has it. "GPU 1"
// where the driver does not say more.
std::string place_of(int ordinal);

}  // namespace lockstep::cuda
