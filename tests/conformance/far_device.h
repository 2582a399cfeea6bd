// A device whose memory the host must not touch: it holds every byte inverted, so that what does not go
// through copy() reads as nonsense.
#pragma once

#include <functional>
#include <map>
#include <mutex>

#include "core/device/device.h"

namespace lockstep::conformance {

class FarDevice : public Device {
 public:
  std::string kind() const override { return "plugin:far"; }
  std::string describe() const override { return "far memory of the tests"; }
  bool addressable() const override { return false; }
  Allocator& memory() override { return memory_; }
  Allocator& staging() override { return cpu_allocator(); }
  DeviceMemory memory_info() override { return {int64_t{1} << 30, int64_t{1} << 30}; }
  std::unique_ptr<Stream> make_stream() override { return queue_stream(); }
  void copy(void* to, const void* from, size_t bytes, Stream& stream) override {
    if (bytes == 0) return;
    bool inverts = memory_.holds(to) != memory_.holds(from);
    stream.run([=] {
      for (size_t i = 0; i < bytes; ++i)
        static_cast<uint8_t*>(to)[i] = static_cast<const uint8_t*>(from)[i] ^ (inverts ? 0xFF : 0);
    });
  }
  void zero(void* data, size_t bytes, Stream& stream) override {
    bool far = memory_.holds(data);
    stream.run([=] { std::fill_n(static_cast<uint8_t*>(data), bytes, far ? 0xFF : 0); });
  }
  std::unique_ptr<CapturedWork> capture(Stream&, const std::function<void()>&) override { return nullptr; }

 private:
  class Memory : public Allocator {
   public:
    void* allocate(size_t bytes) override {
      auto* data = static_cast<uint8_t*>(cpu_allocator().allocate(bytes));
      std::fill_n(data, bytes, 0xFF);
      std::lock_guard lock(mutex_);
      regions_[data] = bytes;
      return data;
    }
    void release(void* data, size_t bytes) noexcept override {
      {
        std::lock_guard lock(mutex_);
        regions_.erase(static_cast<uint8_t*>(data));
      }
      cpu_allocator().release(data, bytes);
    }
    bool holds(const void* data) {
      std::lock_guard lock(mutex_);
      auto at = static_cast<const uint8_t*>(data);
      auto next = regions_.upper_bound(const_cast<uint8_t*>(at));
      if (next == regions_.begin()) return false;
      --next;
      return at < next->first + next->second;
    }

   private:
    std::mutex mutex_;
    std::map<uint8_t*, size_t> regions_;
  };
  Memory memory_;
};

}  // namespace lockstep::conformance
