// Creates files and folders that others may read, such as exports and reports: their modes follow the umask.
// Like private files, they are never created through a symbolic link.
#pragma once

#include <functional>
#include <string>

#include "core/files/descriptor.h"

namespace lockstep {

struct PlainFile;  // core/files/plain_file.h

// Creates a file for writing, mode 0666 less the umask; it replaces a file or a link. Refuses anything else
// of this name: the first function by errno, the second in words.
Descriptor create_shared_descriptor(const std::string& path);
PlainFile create_shared(const std::string& path);
// Replaces a file atomically: `put` writes a draft next to it and returns 0 or the errno. Returns "", or the
// reason of the failure; the old file is then unchanged.
std::string write_shared(const std::string& path, const std::function<int(const Descriptor& file)>& put);
// Creates a folder, mode 0777 less the umask; -1 and EEXIST if the name is taken.
int make_shared_folder(const std::string& path);

}  // namespace lockstep
