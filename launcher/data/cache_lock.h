// Cache of data file results: locks an entry while it is made, and decides which files may be cached.
#pragma once

#include <string>

#include "launcher/data/source.h"

namespace lockstep::launcher::data {

// Whether a file was written moments ago. It could be written again with the same times, so its results are
// not cached.
bool too_young(const FileStamp& stamp);

// Waits, at most ten minutes, for the process that makes the entry. False when that takes longer, or the file
// system has no locks.
bool lock_entry(int fd);

// The path with links resolved, which names an entry.
std::string real_path_of(const std::string& path);

}  // namespace lockstep::launcher::data
