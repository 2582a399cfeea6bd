// Files and folders made for others, as exports and reports are: their modes follow the umask. Never made
// through a symbolic link, as private files are not.
#pragma once

#include <functional>
#include <string>

#include "core/base/descriptor.h"

namespace lockstep {

struct PlainFile;  // core/base/plain_file.h

// A new file in the place of a file or a link, for writing: 0666 less the umask. What is neither is refused:
// with errno, or in words.
Descriptor create_shared_descriptor(const std::string& path);
PlainFile create_shared(const std::string& path);
// The same, whole or as it was: `put` writes beside it, and gives errno, or 0. "", or why it is not there.
std::string write_shared(const std::string& path, const std::function<int(const Descriptor& file)>& put);
// A new folder, 0777 less the umask; -1 and EEXIST where anything has the name.
int make_shared_folder(const std::string& path);

}  // namespace lockstep
