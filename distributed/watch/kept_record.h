// Keeps a flight record when its process ends: writes the bytes of the memory file as a plain file in place
// of the link.
#pragma once

#include <cstddef>
#include <string>

namespace lockstep::distributed {

// Writes a file next to `path` and renames it to `path`. Returns false, without a change, if that fails (a
// full disk, a removed folder).
bool write_kept_record(const std::string& path, const void* bytes, size_t size);

}  // namespace lockstep::distributed
