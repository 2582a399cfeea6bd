// Maps a shared library after checking its owner; the file that was checked is the one that is mapped.
#pragma once

#include <string>

namespace lockstep {

struct TrustedLibrary {
  void* handle = nullptr;                // mapped for the life of the process
  void* find(const char* symbol) const;  // null if absent
};

// Maps the library at `path`, which must contain a slash. The file and every folder on the way must belong to
// root or this user and must not be writable for others (core/files/trusted_path.h). Messages put `subject`
// ("train.device plugin:") before the path, `word` ("plugin:") before suggested paths, and `advice` after the
// loader's words. Throws UserError if the path is not trusted or cannot be mapped.
TrustedLibrary open_trusted_library(const std::string& path, const std::string& subject,
                                    const std::string& word = "", const std::string& advice = "");

}  // namespace lockstep
