// Opens plain files without ever blocking and reads them whole. Anything that is not a plain file is refused
// unread.
#pragma once

#include <cstdint>
#include <string>

#include "core/files/descriptor.h"

namespace lockstep {

// A plain file that was opened, or why it was not.
struct PlainFile {
  Descriptor fd;
  int64_t bytes = 0;  // when it was opened
  int code = 0;       // errno of the refusal: EISDIR for a folder, EINVAL for other files that are not plain
  std::string why;    // "Permission denied", "it is a FIFO, not a plain file"; "" when it is open
};
// Opens for reading and follows a link. Refuses folders, FIFOs, devices and sockets, and returns at once even
// for a FIFO without a writer.
PlainFile open_plain(const std::string& path);
// Opens for writing as create_private (private_file.h) does: a new file replaces a file or a link. Refuses
// anything else of this name.
PlainFile create_plain(const std::string& path);

// Reads the whole text of a plain file of at most `limit` bytes. Returns false, with the reason in `why`, if
// it cannot be read.
bool read_plain(const std::string& path, std::string& text, std::string& why,
                int64_t limit = int64_t{1} << 30);

}  // namespace lockstep
