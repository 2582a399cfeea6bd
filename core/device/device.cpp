// The CPU as a device, and copies that block.
#include "core/device/device.h"

#include <unistd.h>

#include <cstring>

#include "core/base/error.h"

namespace lockstep {

namespace {
class Cpu : public Device {
 public:
  std::string kind() const override { return "cpu"; }
  std::string describe() const override { return "CPU"; }
  bool addressable() const override { return true; }
  Allocator& memory() override { return cpu_allocator(); }
  Allocator& staging() override { return cpu_allocator(); }
  DeviceMemory memory_info() override {
    const int64_t page = sysconf(_SC_PAGESIZE);
    return {sysconf(_SC_AVPHYS_PAGES) * page, sysconf(_SC_PHYS_PAGES) * page};
  }
  std::unique_ptr<Stream> make_stream() override { return inline_stream(); }
  void copy(void* to, const void* from, size_t bytes, Stream& stream) override {
    if (to != from && bytes) stream.run([=] { std::memmove(to, from, bytes); });
  }
  void zero(void* data, size_t bytes, Stream& stream) override {
    if (bytes) stream.run([=] { std::memset(data, 0, bytes); });
  }
  std::unique_ptr<CapturedWork> capture(Stream&, const std::function<void()>&) override { return nullptr; }
};
}  // namespace

Device& cpu_device() {
  static Cpu instance;
  return instance;
}

void copy_to_device(Device& device, void* to, const void* from, size_t bytes) {
  device.enter();
  auto stream = device.make_stream();
  device.copy(to, from, bytes, *stream);
  stream->synchronize();
}
void copy_to_host(Device& device, void* to, const void* from, size_t bytes) {
  copy_to_device(device, to, from, bytes);
}

}  // namespace lockstep
