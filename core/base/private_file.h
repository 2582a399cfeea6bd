// Files and folders for their owner alone: 0600 and 0700 whatever the umask, and never made or opened through
// a symbolic link.
#pragma once

#include <fcntl.h>

#include <string>
#include <string_view>

#include "core/base/descriptor.h"

namespace lockstep {

// Names are relative to the folder `at`. What fails gives a descriptor that is not open, or -1, and errno.

// A new file, opened with `flags` (O_WRONLY, O_RDWR, O_APPEND). A file or a link that had the name is removed
// first: of a link the link, not what it points to. A pipe, a device or a folder stays, and is EINVAL.
Descriptor create_private(const std::string& path, int flags = O_WRONLY, int at = AT_FDCWD);

// The file of this name, made where there is none; a file that exists keeps its mode. ELOOP for a symbolic
// link. Opening never waits: a pipe, a device or a folder is EINVAL.
Descriptor open_private(const std::string& path, int flags, int at = AT_FDCWD);

// A new folder; EEXIST where anything has the name.
int make_private_folder(const std::string& path, int at = AT_FDCWD);
// A folder and those above it, as `mkdir -p` does; what exists keeps its mode.
int make_private_folders(const std::string& path);

// Adds `text` to the file of this name, made where there is none.
bool append_private(const std::string& path, const std::string& text);
// `path`, with the file made where there is none: for a stream, which would make it as the umask says.
std::string made_private(const std::string& path);
// The name under which PATH is written until it is whole, and by which what a killed process left is known.
inline constexpr std::string_view kDraft = ".lockstep-draft";
std::string draft_of(const std::string& path);
// Replaces a file or a link whole: written as its draft, synced, renamed. False, with errno, when that fails,
// and for a pipe, a device or a folder of this name; what was there is then as it was.
bool replace_private(const std::string& path, const std::string& text);

}  // namespace lockstep
