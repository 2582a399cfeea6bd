// Removes files that this program created, which it recognises by names of an exact form; never follows a
// link, never removes a foreign file.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace lockstep {

// Whether an entry was made by this program. `path` is relative to the folder that is removed, as in
// "step-20/manifest.json".
struct Entry {
  std::string path;
  bool folder = false;  // false for a link
};
using IsOurs = std::function<bool(const Entry&)>;

// Removes the entries of `folder` that `ours` accepts: files, links (not their targets), and subfolders by
// the same rule. Then removes the folder itself if it is empty. Leaves `folder` alone if it is a link.
// Returns whether the folder is gone.
bool remove_known(const std::string& folder, const IsOurs& ours);

// Returns the first entry that `ours` does not accept; "" if there is none, or no such folder.
std::string foreign_in(const std::string& folder, const IsOurs& ours);

// Whether the path is a symbolic link. False if nothing has this path, and for a path in an object store.
bool is_link(const std::string& path);

// Whether `text` is the prefix `before`, a whole number without leading zeros, and the suffix `behind`: a
// numbered name.
bool is_numbered(std::string_view text, std::string_view before, std::string_view behind = "");

}  // namespace lockstep
