// The private folder of this process's ranks: the shared memory through which MPI moves data, and MPI's
// session files.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep::launcher {

// Removes what Open MPI, PMIx and MpiFolder make in such a folder, or in one of an attempt in it, and the
// folder if nothing else is in it: what is left, and why, or "".
std::string remove_mpi_folder(const std::string& folder);

// Made 0700 in /dev/shm, else, where that takes no folder or has no room for `bytes`, in TMPDIR or /tmp; and
// removed (remove_mpi_folder). A process that is killed cannot remove its own: the next one that makes a
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
