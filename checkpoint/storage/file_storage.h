// FileStorage: Storage on the POSIX file system, which retries only where a retry is safe.
#pragma once

#include "checkpoint/storage/storage.h"

namespace lockstep::checkpoint {

// Interrupted calls are repeated and short reads and writes are continued; any other failure is reported at
// once. A failed sync is never repeated: the kernel may have dropped the bytes. The lock is an advisory flock
// on FOLDER/.lock, whose text says who holds it.
class FileStorage : public Storage {
 public:
  // owner: 0600 and 0700 regardless of the umask; others: as the umask says
  enum class For { owner, others };
  explicit FileStorage(For whom = For::owner) : whom_(whom) {}
  Commit commit(const std::string&) const override { return Commit::rename; }
  std::unique_ptr<OutFile> create(const std::string& path) override;
  std::unique_ptr<InFile> open(const std::string& path) override;
  bool exists(const std::string& path) override;
  std::vector<FolderEntry> list(const std::string& folder) override;
  void make_folders(const std::string& path) override;
  void rename(const std::string& from, const std::string& to) override;
  void remove(const std::string& path) override;
  void sync_folder(const std::string& folder) override;
  std::shared_ptr<FolderLock> lock(const std::string& folder) override;

  // The system calls that may do only part of the work; tests replace them.
  virtual int64_t write_some(int fd, const void* data, size_t bytes, int64_t offset);
  virtual int64_t read_some(int fd, void* out, size_t bytes, int64_t offset);

 private:
  int make_folder(const std::string& path) const;
  const For whom_;
};

}  // namespace lockstep::checkpoint
