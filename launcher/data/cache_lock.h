// Entries of the cache of what was found in data files: who makes one, and of which files one may be kept.
#pragma once

#include <string>

#include "launcher/data/source.h"

namespace lockstep::launcher::data {

// Whether a file was written within the last moments: it may be written again with the same times, so that
// what was found of it is not kept.
bool too_young(const FileStamp& stamp);

// Waits for whoever makes the entry (ten minutes at most). False where that takes longer, or where the file
// system has no locks.
bool lock_entry(int fd);

// The path without links, as it names an entry.
std::string real_path_of(const std::string& path);

}  // namespace lockstep::launcher::data
