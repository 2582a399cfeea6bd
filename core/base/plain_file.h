// Plain files: opened without ever blocking, read and written whole whatever interrupts a call. What is no
// plain file is refused unread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/descriptor.h"

namespace lockstep {

// open(2), again where a signal interrupts it, with O_CLOEXEC. -1 and errno.
int open_again(const std::string& path, int flags, unsigned mode = 0);

// A plain file that was opened, or why it was not.
struct PlainFile {
  Descriptor fd;
  int64_t bytes = 0;  // when it was opened
  int code =
      0;  // errno of the refusal: EISDIR for a folder, EINVAL for what is neither a folder nor a plain file
  std::string why;  // "Permission denied", "it is a FIFO, not a plain file"; "" when it is open
};
// For reading. A link is followed. Returns at once also where the path is a FIFO that nobody writes, a device
// or a socket: these, and folders, are refused.
PlainFile open_plain(const std::string& path);
// For writing: create_private (private_file.h), a new file in the place of a file or a link. What is neither
// is refused.
PlainFile create_plain(const std::string& path);

// The whole text of a plain file of at most `limit` bytes; false, and why, when it cannot be read.
bool read_plain(const std::string& path, std::string& text, std::string& why,
                int64_t limit = int64_t{1} << 30);

// All of it, however often the call is interrupted or cut short. 0, or the errno. `written` counts what was
// taken.
int write_fully(int fd, const void* data, size_t bytes, size_t* written = nullptr);
inline int write_fully(int fd, std::string_view text, size_t* written = nullptr) {
  return write_fully(fd, text.data(), text.size(), written);
}
// Up to `bytes` at `offset`: fewer only where the file ends. -1 and errno.
int64_t read_fully(int fd, void* out, size_t bytes, int64_t offset);
// fsync(2), again where a signal interrupts it. 0, or the errno. Any other failure is final: the kernel may
// have dropped the bytes.
int sync_fully(int fd);

}  // namespace lockstep
