// A shared library whose owner was checked: the file that was looked at is the one that is mapped.
#pragma once

#include <string>

namespace lockstep {

struct TrustedLibrary {
  void* handle = nullptr;                // mapped for the life of the process
  void* find(const char* symbol) const;  // null where there is none
};

// Maps the library at `path`, which has a slash: the file and every folder on the way are root's or this
// user's and not writable for others (core/base/trusted_path.h). `subject` stands before the path in
// messages, as in "train.device plugin:"; `word` before the paths that are advised, as in "plugin:"; `advice`
// behind what the loader says. UserError where it is not so, or it cannot be mapped.
TrustedLibrary open_trusted_library(const std::string& path, const std::string& subject,
                                    const std::string& word = "", const std::string& advice = "");

}  // namespace lockstep
