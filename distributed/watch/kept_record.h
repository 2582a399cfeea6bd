// A record that stays when its process is gone: the bytes of the memory file as a plain file in place of the
// link to it.
#pragma once

#include <cstddef>
#include <string>

namespace lockstep::distributed {

// Written beside `path`, then renamed onto it. False where that fails (a full disk, a folder that is gone):
// nothing is changed then.
bool write_kept_record(const std::string& path, const void* bytes, size_t size);

}  // namespace lockstep::distributed
