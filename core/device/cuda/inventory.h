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

}  // namespace lockstep::cuda
