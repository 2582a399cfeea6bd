// A private folder that is removed with this object. The next process that creates one also removes the
// folders that killed processes left.
#pragma once

#include <string>

#include "core/files/descriptor.h"
#include "core/files/unfinished.h"

namespace lockstep {

class TemporaryFolder {
 public:
  // Creates TMPDIR/lockstep-scratch-KIND-XXXXXX, mode 0700. Removes folders of this kind and user whose
  // process has ended and that were not written to in the last minute. Throws UserError if none can be
  // created, or if other users could replace the folder in TMPDIR.
  explicit TemporaryFolder(const std::string& kind);
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }
  // The same folder, open: a file that is opened relative to it is inside it.
  const Descriptor& folder() const { return folder_; }

 private:
  std::string path_;
  Descriptor folder_;  // locked (flock) as long as the process lives
  Unfinished all_;     // a file that cannot be removed stays in TMPDIR
};

}  // namespace lockstep
