// CPU memory: aligned, zeroed pages.
#include "core/device/buffer.h"

#include <cstdlib>
#include <cstring>

#include "core/base/error.h"

namespace lockstep {

namespace {
constexpr size_t kAlignment = 256;

class CpuAllocator : public Allocator {
 public:
  void* allocate(size_t bytes) override {
    size_t rounded = bytes ? (bytes + kAlignment - 1) / kAlignment * kAlignment : kAlignment;
    void* data = std::aligned_alloc(kAlignment, rounded);
    if (!data)
      throw UserError(str("out of memory: ", bytes_text(static_cast<double>(bytes)),
                          " could not be allocated on the CPU; use a smaller micro-batch or more ranks"));
    std::memset(data, 0, rounded);
    return data;
  }
  void release(void* data, size_t) noexcept override { std::free(data); }
};
}  // namespace

Allocator& cpu_allocator() {
  static CpuAllocator instance;
  return instance;
}

Buffer::Buffer(size_t bytes, Allocator& from) : bytes_(bytes) {
  data_ = std::shared_ptr<std::byte>(static_cast<std::byte*>(from.allocate(bytes)),
                                     [&from, bytes](std::byte* data) { from.release(data, bytes); });
}

}  // namespace lockstep
