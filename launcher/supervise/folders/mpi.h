// The private folder of this process's ranks: the shared memory through which MPI moves data, and MPI's
// session files.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep::launcher {

// Removes the files of Open MPI, PMIx and MpiFolder in such a folder, or in an attempt's folder in it, and
// then the folder if it is empty. Returns what is left and why, or "".
std::string remove_mpi_folder(const std::string& folder);

// Created 0700 in /dev/shm, or in TMPDIR or /tmp if /dev/shm is not writable or lacks `bytes`; removed at the
// end (remove_mpi_folder). A killed process cannot remove its folder: the next MpiFolder of the same user
// removes it, because the creator's lock ended with it.
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

// Removes folders below `top` that dead processes of this user left. Returns their number.
int remove_abandoned_folders(const std::string& top);

}  // namespace lockstep::launcher
