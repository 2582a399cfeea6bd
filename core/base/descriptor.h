// An open file descriptor, closed on every way out.
#pragma once

#include <unistd.h>

#include <cerrno>
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
  // Keeps errno: what failed before the close stays readable.
  void reset(int fd = -1) {
    const int reason = errno;
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
    errno = reason;
  }

 private:
  int fd_;
};

}  // namespace lockstep
