// Creates files and folders that only their owner can read: modes 0600 and 0700 independent of the umask,
// never through a symbolic link.
#pragma once

#include <fcntl.h>

#include <string>
#include <string_view>

#include "core/files/descriptor.h"

namespace lockstep {

// Names are relative to the folder `at`. A call that fails returns a closed descriptor, or -1, and sets
// errno.

// Creates a new file, opened with `flags` (O_WRONLY, O_RDWR, O_APPEND). Removes a file or a link of this name
// first (the link itself, not its target). EINVAL for a pipe, a device or a folder, which stays.
Descriptor create_private(const std::string& path, int flags = O_WRONLY, int at = AT_FDCWD);

// Opens the file of this name, or creates it; an existing file keeps its mode. ELOOP for a symbolic link,
// EINVAL for a pipe, a device or a folder. Opening never blocks.
Descriptor open_private(const std::string& path, int flags, int at = AT_FDCWD);

// Creates a folder; EEXIST if the name is taken.
int make_private_folder(const std::string& path, int at = AT_FDCWD);
// Creates a folder and its parents, as `mkdir -p` does; existing folders keep their modes.
int make_private_folders(const std::string& path);

// Appends `text` to the file of this name, which is created if absent.
bool append_private(const std::string& path, const std::string& text);
// Creates the file if absent and returns `path`, for a stream, which would create it with the mode of the
// umask.
std::string made_private(const std::string& path);
// The suffix of a file that is still being written. A file with this suffix that no process writes was left
// by a killed one.
inline constexpr std::string_view kDraft = ".lockstep-draft";
std::string draft_of(const std::string& path);
// Replaces a file or a link atomically: writes the text as a draft, syncs it and renames it. Returns false
// with errno on failure, also for a pipe, a device or a folder of this name; the old file is then unchanged.
bool replace_private(const std::string& path, const std::string& text);

}  // namespace lockstep
