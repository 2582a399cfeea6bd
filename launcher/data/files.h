// From data.paths to files: folders, globs, each real file once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/error.h"

namespace lockstep::launcher::data {

// What data.paths names, and what was left out on the way.
struct FileList {
  std::vector<std::string> files;  // no real file twice (with every_name: no path twice); data.paths in the
                                   // order given, each entry expanded in the order of its paths
  int64_t duplicates = 0;          // further names of files already taken: links, overlapping patterns
  int64_t hidden = 0;              // names with a leading dot inside a folder
  int64_t others = 0;  // inside a folder: sockets, pipes, devices, dangling links, and names without the
                       // extension asked for
};

// What find_files throws where a path is not there and nothing is named like it, or a pattern matches
// nothing: the data may still have to be made.
class MissingData : public UserError {
 public:
  using UserError::UserError;
};

// Expands each path: @FILE gives the paths on the lines of a file; a file is taken; a folder gives the files
// below it; a pattern of * ? [..] (within one name, a leading dot only if spelled) and ** (any number of
// folders) gives what it matches, folders among them. A path that exists is never read as a pattern.
// extension: of folders only the files that end so are taken ("" takes all). Throws UserError: nothing named,
// a path that does not exist (with the nearest name beside it), a pattern that matches nothing, a path that
// is no file and no folder, and whatever the system refuses to read.
// every_name: a further name of a file already taken is taken, too, as one picture that is of two classes.
FileList find_files(const std::vector<std::string>& paths, const std::string& extension,
                    bool every_name = false);

}  // namespace lockstep::launcher::data
