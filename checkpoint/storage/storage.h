// Storage: where checkpoints lie, as few verbs as the commit protocol needs. A local or shared file system,
// or another place behind the same verbs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/error.h"

namespace lockstep::checkpoint {

// A verb of Storage failed. `code` is the errno of the cause; the message names the path and, for reads and
// writes, the bytes.
class StorageError : public UserError {
 public:
  StorageError(const std::string& message, std::string path, int code)
      : UserError(message), path(std::move(path)), code(code) {}
  std::string path;
  int code;
  // True when the bytes may be fine but this process is not let at them (permissions, open-file limit,
  // read-only mount).
  bool access_denied() const;
};

// The storage did not take a checkpoint: it is full, failing, read-only or gone. What was saved before is
// untouched, and the same save may go well later.
class NotSaved : public PeerError {
 public:
  using PeerError::PeerError;
};

// A file being written, front to back or, where it says so, anywhere. Not synced and not closed is not kept.
class OutFile {
 public:
  virtual ~OutFile() = default;
  // Behind the last byte: all of it, or StorageError naming the file and how many bytes were written.
  virtual void write(const void* data, size_t bytes) = 0;
  // Whether write_at() may be called, from several threads at a time. What lies between the places written is
  // zero until it is written, too.
  virtual bool anywhere() const { return false; }
  virtual void write_at(int64_t offset, const void* data, size_t bytes);  // as write()
  // That the file will have so many bytes, before the first is written: a file system finds places for all of
  // them together.
  virtual void expect(int64_t /*bytes*/) {}
  virtual void sync() = 0;            // the bytes are on the device when it returns
  virtual void close() = 0;           // StorageError when the system reports a late write error
  virtual int64_t bytes() const = 0;  // up to the last one written so far
};

// A file being read at any offset.
class InFile {
 public:
  virtual ~InFile() = default;
  virtual int64_t bytes() const = 0;  // size when it was opened
  virtual void read(int64_t offset, void* out,
                    size_t bytes) const = 0;  // all of it, or StorageError naming file, offset and bytes
};

// Held while it lives; released when it goes or when the process dies.
class FolderLock {
 public:
  virtual ~FolderLock() = default;
  // Asked before anything is committed. StorageError (EWOULDBLOCK) where the lock was lost, which a storage
  // without the kernel's locks may do to a process that stood still.
  virtual void check() const {}
};

// How a checkpoint takes its name.
enum class Commit {
  rename,         // written aside, as step-N.tmp; folders are renamed in one step
  manifest_last,  // written where it is read, and there when its manifest is. Nothing is renamed; a file
                  // appears whole, with close(), in the place of the one that had its name
};

struct FolderEntry {
  std::string name;
  bool folder = false;
};

// Paths are spelled with '/'. Every verb throws StorageError on failure. tests/conformance holds each to the
// same cases.
class Storage {
 public:
  virtual ~Storage() = default;
  virtual Commit commit(const std::string& path) const = 0;              // of checkpoints at `path`
  virtual std::unique_ptr<OutFile> create(const std::string& path) = 0;  // makes the file, or empties it
  virtual std::unique_ptr<InFile> open(const std::string& path) = 0;
  virtual bool exists(const std::string& path) = 0;
  virtual std::vector<FolderEntry> list(const std::string& folder) = 0;  // sorted by name
  virtual void make_folders(const std::string& path) = 0;  // with its parents; those that exist stay
  // Atomic; replaces a file, never a non-empty folder. Of Commit::rename; StorageError (ENOTSUP) elsewhere.
  virtual void rename(const std::string& from, const std::string& to);
  virtual void remove(const std::string& path) = 0;  // a file or an empty folder
  virtual void sync_folder(
      const std::string& folder) = 0;  // its entries (creations, renames) are on the device
  // One writer per folder: StorageError naming the holder when another process has it. Within one process the
  // same lock is shared.
  virtual std::shared_ptr<FolderLock> lock(const std::string& folder) = 0;
};
Storage& file_storage();  // the file system
Storage& any_storage();   // by the path: s3://BUCKET/... an object store, all else the file system
// The same two, for what is made for others: modes of files and folders follow the umask. Else they are their
// owner's alone.
Storage& shared_file_storage();
Storage& any_shared_storage();

// Words over the verbs.
std::string parent_folder(const std::string& path);  // "a/b" -> "a"; "b" -> "."
std::string last_part(const std::string& path);      // "a/b/" -> "b"
std::string read_text(Storage& storage, const std::string& path,
                      int64_t limit);  // StorageError for a file over `limit` bytes
void write_text(Storage& storage, const std::string& path,
                const std::string& text);                         // written, synced, closed
void remove_folder(Storage& storage, const std::string& folder);  // with everything in it

}  // namespace lockstep::checkpoint
