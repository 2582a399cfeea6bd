// Who could have changed what a path names: nobody but root and this user, or it is not opened.
#pragma once

#include <string>

#include "core/base/descriptor.h"

namespace lockstep {

// A file or folder that was opened, or why it was not.
struct TrustedOpen {
  Descriptor file;  // open: everything on the way was checked
  std::string why;  // else: "/tmp/x belongs to mallory (uid 1001), mode 0755; ...", with the way out, or the
                    // system's words
  int error = 0;    // the system's error; 0 where the file is there and is not trusted
  std::string resolved;  // the path without links, as far as it was walked
  explicit operator bool() const { return static_cast<bool>(file); }
  bool distrusted() const { return !file && error == 0; }
};

// Walks `path` from the root, one name at a time, each opened relative to the folder before it. Every folder
// on the way, and every symbolic link that is followed, must belong to root or to this process's user; no
// folder may be writable for others, unless it is sticky as /tmp is. Write access of a group is allowed where
// the group is the user's own (of the user's name, without other members).

// For opening files relative to it (O_PATH). `create`: what is missing is made, 0700.
TrustedOpen open_trusted_folder(const std::string& path, bool create = false);
// For reading. Of the file itself too: plain, of root or this user, not writable for others, no symbolic link
// in the last place. Never waits.
TrustedOpen open_trusted_file(const std::string& path);
// The same for a name in a folder that open_trusted_folder gave; `shown` is its path, for messages.
TrustedOpen open_trusted_in(const Descriptor& folder, const std::string& name, const std::string& shown);

}  // namespace lockstep
