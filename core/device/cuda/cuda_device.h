// One NVIDIA GPU as a Device: plain cuMemAlloc memory, streams, events, graphs, and modules of machine code.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/device/cuda/cuda_stream.h"
#include "core/device/cuda/driver.h"
#include "core/device/device.h"

namespace lockstep::cuda {

struct Properties {
  std::string name;
  int ordinal = 0;
  int major = 0, minor = 0;  // compute capability
  int multiprocessors = 0;
  int shared_per_block = 0;  // bytes that a block may ask for (opt-in limit)
  int l2_bytes = 0;
  int64_t memory = 0;      // bytes
  int driver_version = 0;  // 13000 = 13.0
};

// Machine code loaded on a device; functions live as long as the module.
class Module {
 public:
  virtual ~Module() = default;
  // Throws InternalError if the module has no such function. Thread-safe.
  virtual CUfunction function(const std::string& name) const = 0;
};

class CudaDevice : public Device {
 public:
  virtual const Properties& properties() const = 0;
  virtual std::string target() const = 0;  // "sm_90": what kernels are compiled for
  // A high-priority stream, for short kernels that other work waits for.
  virtual std::unique_ptr<Stream> make_first_stream() = 0;
  virtual std::shared_ptr<const Module> load(const std::string& cubin) const = 0;
  // Sets the result of content_sums(); its kernels come from the compiler wing. The first call wins, later
  // ones change nothing.
  virtual void take_content_sums(std::unique_ptr<ContentSums> sums) = 0;
  virtual void take_draws(std::unique_ptr<Draws> draws) = 0;  // the same for draws()
};

// Opens a device (once per process and ordinal; later calls give the same one). UserError: no driver, no such
// device (naming how many there are and CUDA_VISIBLE_DEVICES), or a compute capability below 8.0 (naming the
// device and what is needed).
std::shared_ptr<CudaDevice> open_device(int ordinal);

// Launches a kernel. `args` are pointers to the values of the parameters, as cuLaunchKernel takes them.
void launch(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block,
            unsigned shared_bytes, Stream& stream, void** args, const std::string& what);

}  // namespace lockstep::cuda
