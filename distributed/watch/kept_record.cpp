// Writes one file atomically. It is not synced: it has to survive the process, not the machine.
#include "distributed/watch/kept_record.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "core/base/text.h"
#include "core/files/private_file.h"

namespace lockstep::distributed {

bool write_kept_record(const std::string& path, const void* bytes, size_t size) {
  const std::string draft = str(path, ".", getpid());
  Descriptor file = create_private(draft);
  if (!file) return false;
  size_t at = 0;
  while (at < size) {
    const ssize_t n = write(file.get(), static_cast<const char*>(bytes) + at, size - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    at += n;
  }
  const bool whole = at == size && std::rename(draft.c_str(), path.c_str()) == 0;
  if (!whole) unlink(draft.c_str());
  return whole;
}

}  // namespace lockstep::distributed
