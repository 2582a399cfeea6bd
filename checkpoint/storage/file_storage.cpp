// FileStorage: files, folders and the lock, over POSIX calls.
#include "checkpoint/storage/file_storage.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <utility>

#include "core/files/plain_file.h"
#include "core/files/private_file.h"
#include "core/files/remove_known.h"
#include "core/files/shared_file.h"

namespace lockstep::checkpoint {

namespace {
[[noreturn]] void fail(const std::string& what, const std::string& path, int code) {
  throw StorageError(str(what, ": ", std::strerror(code)), path, code);
}

// Free space on the file system of `path`, for the message of a full disk.
std::string free_text(const std::string& path) {
  struct statvfs at;
  if (::statvfs(path.c_str(), &at) != 0) return "";
  return str("; ", bytes_text(static_cast<double>(at.f_bavail) * static_cast<double>(at.f_frsize)),
             " are free there; free some space or save elsewhere");
}

void sync_descriptor(int fd, const std::string& path) {
  int code = sync_fully(fd);
  if (code != 0 && code != EINVAL)
    fail(str("cannot sync ", path), path, code);  // EINVAL: nothing to sync there (some folders)
}

class PosixOutFile : public OutFile {
 public:
  PosixOutFile(FileStorage& storage, std::string path, Descriptor fd)
      : storage_(storage), path_(std::move(path)), fd_(std::move(fd)) {}

  void write(const void* data, size_t bytes) override {
    write_all(end_, data, bytes);
    begin_flush();
  }
  bool anywhere() const override { return true; }
  // Allocates the whole file at once. This is only advice: a later write reports the failure, and the
  // allocated space is returned.
  void expect(int64_t bytes) override {
    if (bytes > end_ && ::fallocate(fd_.get(), FALLOC_FL_KEEP_SIZE, end_, bytes - end_) != 0)
      (void)!::ftruncate(fd_.get(), end_);
  }
  void write_at(int64_t offset, const void* data, size_t bytes) override {
    write_all(offset, data, bytes);
    if (bytes >= kFlushedAlone) flush(offset, static_cast<int64_t>(bytes));
  }
  void sync() override { sync_descriptor(fd_.get(), path_); }
  void close() override {
    if (::close(fd_.take()) != 0 && errno != EINTR)
      fail(str("cannot close ", path_, " after ", end_.load(), " bytes"), path_, errno);
  }
  int64_t bytes() const override { return end_; }

 private:
  void write_all(int64_t offset, const void* data, size_t bytes) {
    const char* at = static_cast<const char*>(data);
    size_t left = bytes;
    while (left > 0) {
      int64_t n = storage_.write_some(fd_.get(), at, std::min(left, size_t{1} << 30), offset);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) {
        int code = n == 0 ? ENOSPC : errno;
        const bool full = code == ENOSPC || code == EDQUOT;
        throw StorageError(
            str("cannot write ", path_, ": ", std::strerror(code), " at byte ", offset, " (", left,
                " bytes of this piece left)",
                full            ? free_text(path_)
                : code == EFBIG ? "; raise `ulimit -f`, or save to a file system that takes larger files"
                                : ""),
            path_, code);
      }
      at += n;
      left -= n;
      offset += n;
      for (int64_t end = end_; end < offset && !end_.compare_exchange_weak(end, offset);) {}
    }
  }
  // Starts writeback early, so that sync() finds little left. This is only advice: sync() reports failures.
  void flush(int64_t from, int64_t bytes) {
    ::sync_file_range(fd_.get(), from, bytes, SYNC_FILE_RANGE_WRITE);
  }
  void begin_flush() {
    if (end_ - begun_ < kFlushBytes) return;
    flush(begun_, end_ - begun_);
    begun_ = end_;
  }
  static constexpr int64_t kFlushBytes = 16 << 20;
  static constexpr size_t kFlushedAlone = 1 << 20;

  FileStorage& storage_;
  std::string path_;
  Descriptor fd_;
  std::atomic<int64_t> end_ = 0;
  int64_t begun_ = 0;
};

class PosixInFile : public InFile {
 public:
  PosixInFile(FileStorage& storage, std::string path, Descriptor fd, int64_t bytes)
      : storage_(storage), path_(std::move(path)), fd_(std::move(fd)), bytes_(bytes) {}
  int64_t bytes() const override { return bytes_; }
  void read(int64_t offset, void* out, size_t bytes) const override {
    char* at = static_cast<char*>(out);
    size_t left = bytes;
    while (left > 0) {
      int64_t n = storage_.read_some(fd_.get(), at, std::min(left, size_t{1} << 30), offset);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail(str("cannot read ", path_, ", ", left, " bytes at offset ", offset), path_, errno);
      if (n == 0)
        throw StorageError(
            str("cannot read ", path_, ", ", left, " bytes at offset ", offset, ": the file ends there"),
            path_, EIO);
      at += n;
      offset += n;
      left -= n;
    }
  }

 private:
  FileStorage& storage_;
  std::string path_;
  Descriptor fd_;
  int64_t bytes_;
};

class HeldLock : public FolderLock {
 public:
  explicit HeldLock(Descriptor fd) : fd_(std::move(fd)) {}

 private:
  Descriptor fd_;  // the kernel releases the flock when the last descriptor goes, also on kill -9
};

// How to keep using checkpoints behind a link RUN/ckpt: checkpoint.dir expects DIR/NAME/ckpt.
std::string way_to_keep(const std::string& link) {
  namespace fs = std::filesystem;
  std::error_code failed;
  const fs::path target = fs::canonical(link, failed);
  if (failed) return "";
  fs::path own = fs::absolute(link, failed).lexically_normal();
  if (own.filename().empty()) own = own.parent_path();  // "ckpt/"
  const fs::path place = own.parent_path().filename() / own.filename();
  if (target.parent_path().filename() / target.filename() == place)
    return str(": --checkpoint.dir=", printable(target.parent_path().parent_path().string()),
               " with --name=", printable(place.parent_path().string()), " goes on with those in ",
               printable(target.string()));
  return str(": if those in ", printable(target.string()), " are this run's, move them to DIR/",
             printable(place.string()), " and say --checkpoint.dir=DIR");
}

constexpr const char* kNobody = "another process";
// "process 12 on h1", or empty before the holder has written it.
bool is_holder(const std::string& said) {
  return said == kNobody || (said.starts_with("process ") && said.find(" on ") != std::string::npos);
}
std::string holder_text(int fd) {
  char text[256];
  ssize_t n = ::pread(fd, text, sizeof text, 0);
  return n > 0 ? trim(std::string_view(text, n)) : kNobody;
}
}  // namespace

int64_t FileStorage::write_some(int fd, const void* data, size_t bytes, int64_t offset) {
  return ::pwrite(fd, data, bytes, offset);
}
int64_t FileStorage::read_some(int fd, void* out, size_t bytes, int64_t offset) {
  return ::pread(fd, out, bytes, offset);
}

std::unique_ptr<OutFile> FileStorage::create(const std::string& path) {
  PlainFile file = whom_ == For::owner ? create_plain(path) : create_shared(path);
  if (!file.fd) throw StorageError(str("cannot create ", path, ": ", file.why), path, file.code);
  return std::make_unique<PosixOutFile>(*this, path, std::move(file.fd));
}

std::unique_ptr<InFile> FileStorage::open(const std::string& path) {
  PlainFile file = open_plain(path);
  if (!file.fd) throw StorageError(str("cannot open ", path, ": ", file.why), path, file.code);
  return std::make_unique<PosixInFile>(*this, path, std::move(file.fd), file.bytes);
}

bool FileStorage::exists(const std::string& path) {
  struct stat at;
  if (::stat(path.c_str(), &at) == 0) return true;
  if (errno == ENOENT || errno == ENOTDIR) return false;
  fail(str("cannot stat ", path), path, errno);
}

std::vector<FolderEntry> FileStorage::list(const std::string& folder) {
  std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir(folder.c_str()), &::closedir);
  if (!dir) fail(str("cannot list ", folder), folder, errno);
  std::vector<FolderEntry> out;
  while (true) {
    errno = 0;
    dirent* entry = ::readdir(dir.get());
    if (!entry) {
      if (errno) fail(str("cannot list ", folder), folder, errno);
      break;
    }
    std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    struct stat at;
    bool is_folder = ::lstat((folder + "/" + name).c_str(), &at) == 0 && S_ISDIR(at.st_mode);
    out.push_back({name, is_folder});
  }
  std::sort(out.begin(), out.end(),
            [](const FolderEntry& a, const FolderEntry& b) { return a.name < b.name; });
  return out;
}

int FileStorage::make_folder(const std::string& path) const {
  return whom_ == For::owner ? make_private_folder(path) : make_shared_folder(path);
}
void FileStorage::make_folders(const std::string& path) {
  if (make_folder(path) == 0) return sync_folder(parent_folder(path));
  if (errno == ENOENT && parent_folder(path) != path) {
    make_folders(parent_folder(path));
    if (make_folder(path) == 0) return sync_folder(parent_folder(path));
  }
  int code = errno;
  struct stat at;
  if (code == EEXIST && ::stat(path.c_str(), &at) == 0 && S_ISDIR(at.st_mode)) return;
  if (code == EEXIST)
    throw StorageError(
        str("cannot make folder ", path, ": something that is no folder has its name; move it away"), path,
        code);
  if (code == ENOTDIR)
    throw StorageError(str("cannot make folder ", path, ": ", std::strerror(code),
                           "; move away what stands on the way to it, or name another place"),
                       path, code);
  fail(str("cannot make folder ", path), path, code);
}

void FileStorage::rename(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) fail(str("cannot rename ", from, " to ", to), from, errno);
}

void FileStorage::remove(const std::string& path) {
  if (::remove(path.c_str()) != 0) fail(str("cannot remove ", path), path, errno);
}

void FileStorage::sync_folder(const std::string& folder) {
  Descriptor fd(open_again(folder, O_RDONLY | O_DIRECTORY));
  if (fd.get() < 0) fail(str("cannot open folder ", folder), folder, errno);
  sync_descriptor(fd.get(), folder);
}

std::shared_ptr<FolderLock> FileStorage::lock(const std::string& folder) {
  static std::mutex guard;
  // by device and inode of the lock file, so that the spelling of the path does not matter
  static std::map<std::pair<dev_t, ino_t>, std::weak_ptr<FolderLock>> held;
  std::lock_guard<std::mutex> hold(guard);
  if (is_link(folder))
    throw StorageError(
        str("checkpoint folder ", folder,
            " is a link, and nothing is written or removed behind one: it may come from elsewhere. "
            "Remove the link, or name the folder itself, for a run with checkpoint.dir",
            way_to_keep(folder)),
        folder, ELOOP);
  std::string path = folder + "/.lock";
  Descriptor fd = open_private(path, O_RDWR);
  if (!fd && errno == ELOOP)
    throw StorageError(str(path, " is a link, behind which nothing is locked or written; remove it"), path,
                       ELOOP);
  if (!fd && errno == EINVAL) throw StorageError(str(path, " is not a plain file; remove it"), path, EINVAL);
  if (!fd) fail(str("cannot create ", path), path, errno);
  struct stat at;
  if (::fstat(fd.get(), &at) != 0) fail(str("cannot stat ", path), path, errno);
  auto& slot = held[{at.st_dev, at.st_ino}];
  if (auto mine = slot.lock()) return mine;
  int status;
  do status = ::flock(fd.get(), LOCK_EX | LOCK_NB);
  while (status != 0 && errno == EINTR);
  if (status != 0 && errno == EWOULDBLOCK)
    throw StorageError(
        str("checkpoint folder ", folder, " is in use by ", holder_text(fd.get()),
            "; two jobs never write one folder: wait for it, stop it, or choose another --name"),
        path, EWOULDBLOCK);
  if (status != 0) fail(str("cannot lock ", path), path, errno);
  char host[128] = "";
  ::gethostname(host, sizeof host - 1);
  if (const std::string said = holder_text(fd.get()); !is_holder(said))
    throw StorageError(str(path, " is there and is no lock of a run, and is left as it is; move it away"),
                       path, EINVAL);
  std::string who = str("process ", ::getpid(), " on ", host, "\n");
  if (::ftruncate(fd.get(), 0) != 0 || ::pwrite(fd.get(), who.data(), who.size(), 0) < 0) {
    // The text only serves the other job's message; the lock works without it (on a full disk, for example).
  }
  auto mine = std::make_shared<HeldLock>(std::move(fd));
  slot = mine;
  return mine;
}

Storage& file_storage() {
  static FileStorage storage;
  return storage;
}
Storage& shared_file_storage() {
  static FileStorage storage(FileStorage::For::others);
  return storage;
}

}  // namespace lockstep::checkpoint
