// System calls on descriptors, repeated until all bytes are done.
#include "core/files/descriptor.h"

#include <fcntl.h>

#include <algorithm>

namespace lockstep {

int open_again(const std::string& path, int flags, unsigned mode) {
  int fd;
  do fd = ::open(path.c_str(), flags | O_CLOEXEC, static_cast<mode_t>(mode));
  while (fd < 0 && errno == EINTR);
  return fd;
}

int write_fully(int fd, const void* data, size_t bytes, size_t* written) {
  const char* at = static_cast<const char*>(data);
  size_t done = 0;
  int code = 0;
  while (done < bytes && !code) {
    ssize_t n = ::write(fd, at + done, std::min(bytes - done, size_t{1} << 30));
    if (n > 0)
      done += n;
    else if (n == 0)
      code = ENOSPC;
    else if (errno != EINTR)
      code = errno;
  }
  if (written) *written = done;
  return code;
}

int64_t read_fully(int fd, void* out, size_t bytes, int64_t offset) {
  char* at = static_cast<char*>(out);
  size_t done = 0;
  while (done < bytes) {
    ssize_t n =
        ::pread(fd, at + done, std::min(bytes - done, size_t{1} << 30), offset + static_cast<int64_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return -1;
    if (n == 0) break;
    done += n;
  }
  return static_cast<int64_t>(done);
}

int sync_fully(int fd) {
  int status;
  do status = ::fsync(fd);
  while (status != 0 && errno == EINTR);
  return status == 0 ? 0 : errno;
}

}  // namespace lockstep
