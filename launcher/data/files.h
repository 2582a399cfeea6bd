// Expands data.paths to files: folders and globs, each real file once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/error.h"

namespace lockstep::launcher::data {

// The files that data.paths names, and counts of what was skipped.
struct FileList {
  std::vector<std::string> files;  // no real file twice (with every_name: no path twice); data.paths in the
                                   // order given, each entry expanded in the order of its paths
  int64_t duplicates = 0;          // further names of files already taken: links, overlapping patterns
  int64_t hidden = 0;              // names with a leading dot inside a folder
  int64_t others = 0;  // inside a folder: sockets, pipes, devices, dangling links, and names without the
                       // extension asked for
};

// Thrown by find_files when a path does not exist and nothing has a similar name, or a pattern matches
// nothing: the data may still have to be made.
class MissingData : public UserError {
 public:
  using UserError::UserError;
};

// Expands each path: @FILE gives the paths on the lines of a file; a file is taken; a folder gives the files
// below it; a pattern of * ? [..] (within one name, a leading dot only if spelled) and ** (any number of
// folders) gives its matches, including folders. An existing path is never read as a pattern. extension: only
// files with this ending are taken from folders ("" takes all). Throws UserError: no path given, a missing
// path (naming the nearest sibling), a pattern without a match, a path that is neither file nor folder, and
// any read error of the system. every_name: further names of a file are taken too, for a picture in two
// classes.
FileList find_files(const std::vector<std::string>& paths, const std::string& extension,
                    bool every_name = false);

}  // namespace lockstep::launcher::data
