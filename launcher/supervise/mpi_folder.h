// The private folder of this process's ranks: the shared memory through which MPI moves data, and MPI's
// session files.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep::launcher {

// Made 0700 in /dev/shm, else, where that takes no folder or has no room for `bytes`, in TMPDIR or /tmp; and
// removed with all that is in it. A process that is killed cannot remove its own: the next one that makes a
// folder does, for folders of the same user whose maker has gone (it held a lock, which ends with it).
class MpiFolder {
 public:
  explicit MpiFolder(int64_t bytes);  // UserError naming both places, and why, when neither will do
  ~MpiFolder();
  MpiFolder(const MpiFolder&) = delete;
  MpiFolder& operator=(const MpiFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  int lock_ = -1;
};

// Removes folders below `top` that dead processes of this user left. Returns how many.
int remove_abandoned_folders(const std::string& top);

}  // namespace lockstep::launcher
