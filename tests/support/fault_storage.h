// FaultStorage: a file system that crashes, fills up or fails at a chosen operation, and that loses what was
// not synced.
#pragma once

#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/storage/file_storage.h"

namespace lockstep {

// The process dies here. Not a std::exception, so nothing on the way out can mistake it for an error to
// handle.
struct Crash {};

// The file system without waiting for the device, which tests by the thousand cannot afford. What a sync
// means is kept by FaultStorage itself.
class UnsyncedStorage : public checkpoint::FileStorage {
 public:
  void sync_folder(const std::string&) override {}
};

// Counts every operation that changes something (create, write, sync, close, make_folders, rename, remove,
// sync_folder) and can break any one of them.
class FaultStorage : public checkpoint::Storage {
 public:
  int64_t crash_at = -1;  // the operation with this number crashes (a write after half of its bytes), and
                          // every later one too
  int64_t fail_at = -1;   // the operation with this number fails with `fail_code`, once
  int fail_code = 5;      // EIO
  int64_t capacity = -1;  // bytes that can be written in all; the write that passes it writes what fits and
                          // fails with ENOSPC
  int64_t operations() const { return operations_; }
  const std::vector<std::string>& journal() const {
    return journal_;
  }  // one line per operation, for messages
  int64_t largest_read() const { return largest_read_; }

  // What a power cut leaves at worst: names that were not synced with their folder go back, files that were
  // not synced lose half of their bytes.
  void lose_unsynced();

  checkpoint::Commit commit(const std::string&) const override { return checkpoint::Commit::rename; }
  std::unique_ptr<checkpoint::OutFile> create(const std::string& path) override;
  std::unique_ptr<checkpoint::InFile> open(const std::string& path) override;
  bool exists(const std::string& path) override;
  std::vector<checkpoint::FolderEntry> list(const std::string& folder) override;
  void make_folders(const std::string& path) override;
  void rename(const std::string& from, const std::string& to) override;
  void remove(const std::string& path) override;
  void sync_folder(const std::string& folder) override;
  std::shared_ptr<checkpoint::FolderLock> lock(const std::string& folder) override {
    return below_.lock(folder);
  }

 private:
  friend class FaultOutFile;
  friend class FaultInFile;
  struct Entry {  // a change of a folder that a power cut may undo
    enum Kind { created, renamed, removed_file, removed_folder } kind;
    std::string folder, path, from;
    std::optional<std::string> content;  // of the file that was removed or replaced
  };
  // Counts; throws what is due. True when the operation must stop half way and crash.
  bool step(const std::string& what, const std::string& path);
  void alive() const;
  void rekey(const std::string& from, const std::string& to);

  UnsyncedStorage below_;
  std::recursive_mutex guard_;
  bool crashed_ = false;
  int64_t operations_ = 0, written_ = 0, largest_read_ = 0;
  std::vector<std::string> journal_;
  std::vector<Entry> entries_;
  std::set<std::string> unsynced_;  // files
};

}  // namespace lockstep
