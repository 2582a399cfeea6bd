// CPU memory: aligned, zeroed pages.
#include "core/device/buffer.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "core/base/error.h"

namespace lockstep {

namespace {
constexpr size_t kAlignment = 256;
// Buffers of this size and more are mapped: the system zeroes a page when any thread first touches it, and
// never an untouched one.
constexpr size_t kMapped = size_t{1} << 20;

class CpuAllocator : public Allocator {
 public:
  void* allocate(size_t bytes) override {
    void* data = bytes >= kMapped ? map(bytes) : zeroed(bytes);
    if (!data)
      throw UserError(str("out of memory: ", bytes_text(static_cast<double>(bytes)),
                          " could not be allocated on the CPU; use a smaller micro-batch or more ranks"));
    return data;
  }
  void release(void* data, size_t bytes) noexcept override {
    if (bytes >= kMapped)
      munmap(data, bytes);
    else
      std::free(data);
  }

 private:
  static void* map(size_t bytes) {
    void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return data == MAP_FAILED ? nullptr : data;
  }
  static void* zeroed(size_t bytes) {
    const size_t rounded = bytes ? (bytes + kAlignment - 1) / kAlignment * kAlignment : kAlignment;
    void* data = std::aligned_alloc(kAlignment, rounded);
    if (data) std::memset(data, 0, rounded);
    return data;
  }
};
}  // namespace

Allocator& cpu_allocator() {
  static CpuAllocator instance;
  return instance;
}

Buffer::Buffer(size_t bytes, Allocator& from) : bytes_(bytes) {
  data_ = std::shared_ptr<std::byte>(static_cast<std::byte*>(from.allocate(bytes)),
                                     [&from, bytes](std::byte* data) { from.release(data, bytes); });
  mapped_ = &from == &cpu_allocator() && bytes >= kMapped;
}

bool Buffer::forget() const { return mapped_ && ::madvise(data_.get(), bytes_, MADV_DONTNEED) == 0; }

}  // namespace lockstep
