// Memory of a device. A Buffer owns 256-byte aligned bytes; a view is a pointer into it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace lockstep {

// Allocates buffers. The CPU's allocator is cpu_allocator(); other devices bring their own.
class Allocator {
 public:
  virtual ~Allocator() = default;
  // 256-byte aligned and zeroed. Throws UserError, with the size, if memory is exhausted.
  virtual void* allocate(size_t bytes) = 0;
  virtual void release(void* data, size_t bytes) noexcept = 0;
};
Allocator& cpu_allocator();

class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(size_t bytes, Allocator& from = cpu_allocator());
  size_t bytes() const { return bytes_; }
  std::byte* data() const { return data_.get(); }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data_.get());
  }
  explicit operator bool() const { return data_ != nullptr; }
  // Returns the pages of a large CPU buffer to the system; it reads as zeros until it is written again.
  // Returns false, and keeps the content, for a small buffer and for other memory.
  bool forget() const;

 private:
  bool mapped_ = false;
  std::shared_ptr<std::byte> data_;
  size_t bytes_ = 0;
};

}  // namespace lockstep
