// Plain files: opened without ever blocking, and read whole. What is no plain file is refused unread.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/descriptor.h"

namespace lockstep {

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

}  // namespace lockstep
