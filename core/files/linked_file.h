// Detects symbolic links that lead out of a foreign folder: such a link could point at any file of the
// reader.
#pragma once

#include <string>

namespace lockstep {

// Returns the real path of a file below `folder` if its name, or that of a folder on the way, is a link out
// of `folder`. Returns "" for no link, for a link within the folder, and for a link of a Hugging Face cache,
// snapshots/REVISION/NAME -> ../../blobs/HASH. `folder` is the path that the user named; it may be a link
// itself.
std::string linked_away(const std::string& path, const std::string& folder);
// Throws UserError, naming both paths and the way out, if a link leads the file out of `folder`. Such a file
// is not read, since its content would be copied into outputs.
void refuse_linked_away(const std::string& path, const std::string& folder);

}  // namespace lockstep
