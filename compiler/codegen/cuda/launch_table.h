// LaunchTable: rows that a kernel's launch reads, brought to the device's memory through staging memory.
#pragma once

#include <cstring>

#include "core/device/cuda/cuda_device.h"

namespace lockstep::compiler::cuda {

using namespace lockstep::cuda;  // the device and its driver, of core

class LaunchTable {
 public:
  explicit LaunchTable(CudaDevice& device) : device_(device) {}
  // Where the rows are for work that is enqueued on `stream` behind this. The work on the rows before is
  // over.
  template <class Row>
  std::byte* put(const Row* rows, size_t count, Stream& stream) {
    const size_t bytes = count * sizeof(Row);
    if (there_.bytes() < bytes) {
      there_ = Buffer(), staged_ = Buffer();
      there_ = Buffer(bytes, device_.memory());
      staged_ = Buffer(bytes, device_.staging());
    }
    std::memcpy(staged_.data(), rows, bytes);
    device_.copy(there_.data(), staged_.data(), bytes, stream);
    return there_.data();
  }

 private:
  CudaDevice& device_;
  Buffer there_, staged_;
};

}  // namespace lockstep::compiler::cuda
