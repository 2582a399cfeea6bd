// Removing what this program made: by names of an exact form, never through a link, and never what is
// foreign.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace lockstep {

// Whether an entry was made by this program. `path` is relative to the folder that is removed, as in
// "step-20/manifest.json".
struct Entry {
  std::string path;
  bool folder = false;  // a link is none
};
using IsOurs = std::function<bool(const Entry&)>;

// Removes the entries of `folder` that `ours` names: files, and links as links; sub-folders by the same rule.
// Then the folder itself, if nothing is left in it. A link in the folder's own place is left alone. True
// where the folder is gone.
bool remove_known(const std::string& folder, const IsOurs& ours);

// The first entry that `ours` does not name, as above; "" where there is none, or no such folder.
std::string foreign_in(const std::string& folder, const IsOurs& ours);

// Whether the path is a symbolic link. False where nothing is there, and for a path of an object store.
bool is_link(const std::string& path);

// Whether `text` is `before`, a whole number without leading zeros, and `behind`: a name that a counter made.
bool is_numbered(std::string_view text, std::string_view before, std::string_view behind = "");

}  // namespace lockstep
