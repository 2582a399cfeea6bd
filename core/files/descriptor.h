// An owned file descriptor (closed by its destructor), and system calls that are retried when a signal
// interrupts them.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace lockstep {

class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  ~Descriptor() { reset(); }
  Descriptor(Descriptor&& other) noexcept : fd_(other.take()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) reset(other.take());
    return *this;
  }
  int get() const { return fd_; }
  int take() { return std::exchange(fd_, -1); }  // the caller closes it
  explicit operator bool() const { return fd_ >= 0; }
  // Keeps errno, so that the error of an earlier call can still be read after the close.
  void reset(int fd = -1) {
    const int reason = errno;
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
    errno = reason;
  }

 private:
  int fd_;
};

// open(2) with O_CLOEXEC, retried when a signal interrupts it. Returns -1 and sets errno on failure.
int open_again(const std::string& path, int flags, unsigned mode = 0);
// Writes all bytes, however often a write is interrupted or cut short. Returns 0 or the errno. `written`
// counts the bytes written, also on failure.
int write_fully(int fd, const void* data, size_t bytes, size_t* written = nullptr);
inline int write_fully(int fd, std::string_view text, size_t* written = nullptr) {
  return write_fully(fd, text.data(), text.size(), written);
}
// Reads up to `bytes` at `offset`; fewer only at the end of the file. Returns -1 and sets errno on failure.
int64_t read_fully(int fd, void* out, size_t bytes, int64_t offset);
// fsync(2), retried when a signal interrupts it. Returns 0 or the errno. Any other failure is final: the
// kernel may have dropped the bytes.
int sync_fully(int fd);

}  // namespace lockstep
