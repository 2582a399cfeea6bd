// Files that lie in a folder of somebody else's: a link in it may point at anything of the reader's own.
#pragma once

#include <string>

namespace lockstep {

// Where a file below `folder` really lies, if its name or that of a folder on the way is a link out of
// `folder`: "" for no link, for one within the folder, and for one of a Hugging Face cache,
// snapshots/REVISION/NAME -> ../../blobs/HASH. `folder` is what the user named, and may be a link itself.
std::string linked_away(const std::string& path, const std::string& folder);
// UserError that names both and the way out, where a file is linked away: it is not read, since what is read
// is copied on.
void refuse_linked_away(const std::string& path, const std::string& folder);

}  // namespace lockstep
