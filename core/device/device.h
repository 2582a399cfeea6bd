// Device: the interface to hardware. Memory, streams, copies, and captured work that is launched as one. A
// device from outside the tree implements this, a codegen Target and, where it has links of its own, a Group.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "core/device/buffer.h"
#include "core/device/contents.h"
#include "core/device/draws.h"
#include "core/device/stream.h"

namespace lockstep {

// Work that was recorded once and can be launched repeatedly with the same pointers (CUDA: a graph).
class CapturedWork {
 public:
  virtual ~CapturedWork() = default;
  virtual void launch(Stream& stream) = 0;
  virtual int64_t nodes() const = 0;  // kernels, copies and collectives in it
};

struct DeviceMemory {
  int64_t free = 0, total = 0;  // bytes, of the whole device, as the driver counts now
};

class Device {
 public:
  virtual ~Device() = default;
  // "cpu", "cuda", "plugin:NAME": devices of one kind run the same kernels
  virtual std::string kind() const = 0;
  // For people and the log: "NVIDIA H200, compute capability 9.0, 132 multiprocessors, driver 13.0".
  virtual std::string describe() const = 0;
  // Whether the host may read and write the device's memory. If not, all access goes through copy().
  virtual bool addressable() const = 0;
  // Device memory: 256-byte aligned, zeroed. Allocation throws UserError with sizes if it is full.
  virtual Allocator& memory() = 0;
  // Host memory that is fast to copy to and from the device (CUDA: pinned).
  virtual Allocator& staging() = 0;
  virtual DeviceMemory memory_info() = 0;
  virtual std::unique_ptr<Stream> make_stream() = 0;
  // Enqueues copies and fills. `to` and `from` are each of this device or of the host. A copy that touches
  // host memory from another allocator than staging() may block the calling thread until it is done.
  virtual void copy(void* to, const void* from, size_t bytes, Stream& stream) = 0;
  virtual void zero(void* data, size_t bytes, Stream& stream) = 0;
  // Records, without running it, the work that `enqueue` enqueues on `stream` and on streams that fork from
  // it and join it again. Returns null, without calling `enqueue`, if the device cannot capture.
  virtual std::unique_ptr<CapturedWork> capture(Stream& stream, const std::function<void()>& enqueue) = 0;
  // Called on every thread before it uses the device (CUDA: makes its context current).
  virtual void enter() {}
  // Null: the host computes the sums; it copies the bytes over in blocks.
  virtual ContentSums* content_sums() { return nullptr; }
  // Null: the host generates random initial values and copies them to the device.
  virtual Draws* draws() { return nullptr; }
};

Device& cpu_device();

// Blocking copies between the host and a device, on a stream of their own.
void copy_to_device(Device& device, void* to, const void* from, size_t bytes);
void copy_to_host(Device& device, void* to, const void* from, size_t bytes);

}  // namespace lockstep
