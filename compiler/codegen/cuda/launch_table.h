// LaunchTable: rows that a kernel launch reads, copied to device memory through staging memory.
#pragma once

#include <cstring>

#include "core/device/cuda/cuda_device.h"

namespace lockstep::compiler::cuda {

using namespace lockstep::cuda;  // the device and its driver, from core

class LaunchTable {
 public:
  explicit LaunchTable(CudaDevice& device) : device_(device) {}
  // Copies the rows and returns their device address for work enqueued on `stream` afterwards. Work on the
  // previous rows must be over.
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
