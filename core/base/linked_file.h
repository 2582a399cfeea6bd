// Files that lie in a folder of somebody else's: a link in it may point at anything of the reader's own.
#pragma once

#include <string>

namespace lockstep {

// Where a file really lies whose name is a link out of its folder: "" for no link, for a link within the
// folder, and for one of a Hugging Face cache, snapshots/REVISION/NAME -> ../../blobs/HASH.
std::string linked_away(const std::string& path);
// UserError that names both and the way out, where a file is linked away: it is not read, since what is read
// is copied on.
void refuse_linked_away(const std::string& path);

}  // namespace lockstep
