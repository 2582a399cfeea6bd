// Storage: the interface to the place of checkpoints, with only the functions that the commit protocol needs.
// Implemented by a file system and by an object store.
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
  // True when the bytes may be intact but this process cannot access them (permissions, open-file limit,
  // read-only mount).
  bool access_denied() const;
};

// The storage did not accept a checkpoint: it is full, failing, read-only or gone. Earlier checkpoints are
// untouched, and the same save may succeed later.
class NotSaved : public PeerError {
 public:
  using PeerError::PeerError;
};

// A file being written, front to back or, if it supports that, at any offset. Without sync and close it is
// not kept.
class OutFile {
 public:
  virtual ~OutFile() = default;
  // Appends all of it, or throws StorageError naming the file and the number of bytes written.
  virtual void write(const void* data, size_t bytes) = 0;
  // Whether write_at() is supported, also from several threads at a time. Gaps between written ranges read as
  // zero.
  virtual bool anywhere() const { return false; }
  virtual void write_at(int64_t offset, const void* data, size_t bytes);  // as write()
  // Announces the file's final size before the first write, so that a file system can allocate it at once.
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

// The lock is held during this object's lifetime; it is released when the object or the process ends.
class FolderLock {
 public:
  virtual ~FolderLock() = default;
  // Called before each commit. StorageError (EWOULDBLOCK) when the lock was lost: without kernel locks, a
  // stopped process can lose its lock.
  virtual void check() const {}
};

// How a checkpoint takes its name.
enum class Commit {
  rename,         // written as step-N.tmp; a folder is renamed atomically
  manifest_last,  // written in its final place, and committed by its manifest. Nothing is renamed; close()
                  // creates or replaces a file atomically
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
  virtual std::unique_ptr<OutFile> create(const std::string& path) = 0;  // creates or truncates the file
  virtual std::unique_ptr<InFile> open(const std::string& path) = 0;
  virtual bool exists(const std::string& path) = 0;
  virtual std::vector<FolderEntry> list(const std::string& folder) = 0;  // sorted by name
  virtual void make_folders(const std::string& path) = 0;  // with its parents; those that exist stay
  // Atomic; replaces a file, never a non-empty folder. Only with Commit::rename; StorageError (ENOTSUP)
  // elsewhere.
  virtual void rename(const std::string& from, const std::string& to);
  virtual void remove(const std::string& path) = 0;         // a file or an empty folder
  virtual void sync_folder(const std::string& folder) = 0;  // makes its entries (creations, renames) durable
  // One writer per folder: StorageError naming the holder when another process has it. Within one process the
  // same lock is shared.
  virtual std::shared_ptr<FolderLock> lock(const std::string& folder) = 0;
};
Storage& file_storage();  // the file system
Storage& any_storage();   // by the path: an object store for s3://BUCKET/..., else the file system
// The same two for files meant for others: modes follow the umask. The two above create private files and
// folders.
Storage& shared_file_storage();
Storage& any_shared_storage();

// Helpers on top of Storage.
std::string parent_folder(const std::string& path);  // "a/b" -> "a"; "b" -> "."
std::string last_part(const std::string& path);      // "a/b/" -> "b"
std::string read_text(Storage& storage, const std::string& path,
                      int64_t limit);  // StorageError for a file over `limit` bytes
void write_text(Storage& storage, const std::string& path,
                const std::string& text);                         // written, synced, closed
void remove_folder(Storage& storage, const std::string& folder);  // with everything in it

}  // namespace lockstep::checkpoint
