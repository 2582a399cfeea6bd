// A private folder for files that nobody needs after this object. What a killed process left is removed by
// the next one that makes one.
#pragma once

#include <string>

#include "core/base/descriptor.h"
#include "core/base/unfinished.h"

namespace lockstep {

class TemporaryFolder {
 public:
  // TMPDIR/lockstep-scratch-KIND-XXXXXX, 0700. Removes folders of this kind and user whose process has gone
  // and that were not written to in the last minute. UserError when none can be made, or TMPDIR is one in
  // which others could put another in its place.
  explicit TemporaryFolder(const std::string& kind);
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }
  const Descriptor& folder() const {
    return folder_;
  }  // the same, open: what is opened relative to it is in it

 private:
  std::string path_;
  Descriptor folder_;  // locked (flock) while its process lives
  Unfinished all_;     // what cannot be removed stays in a folder for temporary files
};

}  // namespace lockstep
