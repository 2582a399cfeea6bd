// Opens a path only if nobody but root and this user could have changed the file or folder that it names.
#pragma once

#include <string>

#include "core/files/descriptor.h"

namespace lockstep {

// A file or folder that was opened, or why it was not.
struct TrustedOpen {
  Descriptor file;  // open: everything on the way was checked
  // Otherwise: "/tmp/x belongs to mallory (uid 1001), mode 0755; ...", with the way out, or the system's
  // words.
  std::string why;
  int error = 0;         // the system's error; 0 where the file is there and is not trusted
  std::string resolved;  // the path without links, as far as it was walked
  explicit operator bool() const { return static_cast<bool>(file); }
  bool distrusted() const { return !file && error == 0; }
};

// All three walk `path` from the root, one name at a time, each opened relative to the folder before it.
// Every folder on the way, and every symbolic link that is followed, must belong to root or to this process's
// user. No folder may be writable for others, unless it is sticky as /tmp is. Group write access is allowed
// if the group is the user's own (it has the user's name and no other members).

// Opens a folder (O_PATH), so that files can be opened relative to it. `create`: missing folders are created,
// mode 0700.
TrustedOpen open_trusted_folder(const std::string& path, bool create = false);
// Opens a file for reading; never blocks. The file itself must be plain, belong to root or this user and not
// be writable for others; the last name must not be a symbolic link.
TrustedOpen open_trusted_file(const std::string& path);
// The same for a name in a folder that open_trusted_folder returned; `shown` is its path, for messages.
TrustedOpen open_trusted_in(const Descriptor& folder, const std::string& name, const std::string& shown);

}  // namespace lockstep
