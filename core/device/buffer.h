// Memory of a device. A Buffer owns 256-byte aligned bytes; a view is a pointer into it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace lockstep {

// Where a buffer comes from. The CPU's is cpu_allocator(); other devices bring their own.
class Allocator {
 public:
  virtual ~Allocator() = default;
  virtual void* allocate(
      size_t bytes) = 0;  // 256-byte aligned, zeroed; throws UserError with the size when memory is out
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
  // Gives the pages of a large buffer of the CPU back: it reads as zeros until it is written again. False
  // where it keeps what it holds: a small one, and any of another memory.
  bool forget() const;

 private:
  bool mapped_ = false;
  std::shared_ptr<std::byte> data_;
  size_t bytes_ = 0;
};

}  // namespace lockstep
