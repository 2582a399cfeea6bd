// Creates files and folders with exact modes.
#include "core/files/private_file.h"

#include <sys/stat.h>

#include "core/files/shared_file.h"

namespace lockstep {

namespace {
constexpr mode_t kFileMode = 0600, kFolderMode = 0700;
constexpr int kRaces = 8;  // how often another process may take or free the name between two calls

Descriptor open_again(int at, const std::string& path, int flags, mode_t mode = kFileMode) {
  int fd;
  do fd = ::openat(at, path.c_str(), flags | O_NOFOLLOW | O_CLOEXEC, mode);
  while (fd < 0 && errno == EINTR);
  return Descriptor(fd);
}

// The umask can only remove bits, so a file never has more permissions than requested; fchmod restores those
// of the owner.
Descriptor exact(Descriptor file) {
  if (file && ::fchmod(file.get(), kFileMode) != 0 && errno != EPERM && errno != ENOTSUP) return Descriptor();
  return file;
}

// Creates a new file that replaces a file or a link.
Descriptor create(const std::string& path, int flags, int at, mode_t mode) {
  for (int i = 0; i < kRaces; ++i) {
    Descriptor file = open_again(at, path, flags | O_CREAT | O_EXCL, mode);
    if (file || errno != EEXIST) return file;
    struct stat found;
    if (::fstatat(at, path.c_str(), &found, AT_SYMLINK_NOFOLLOW) != 0) {
      if (errno == ENOENT) continue;
      return Descriptor();
    }
    if (!S_ISREG(found.st_mode) && !S_ISLNK(found.st_mode)) {
      errno = EINVAL;
      return Descriptor();
    }
    if (::unlinkat(at, path.c_str(), 0) != 0 && errno != ENOENT) return Descriptor();
  }
  errno = EEXIST;
  return Descriptor();
}
}  // namespace

Descriptor create_private(const std::string& path, int flags, int at) {
  return exact(create(path, flags, at, kFileMode));
}
Descriptor create_shared_descriptor(const std::string& path) {
  return create(path, O_WRONLY, AT_FDCWD, 0666);
}
int make_shared_folder(const std::string& path) { return ::mkdir(path.c_str(), 0777); }

Descriptor open_private(const std::string& path, int flags, int at) {
  for (int i = 0; i < kRaces; ++i) {
    Descriptor file = open_again(at, path, flags | O_CREAT | O_EXCL);
    if (file || errno != EEXIST) return exact(std::move(file));
    file = open_again(at, path, flags | O_NONBLOCK);
    if (!file && errno == ENOENT) continue;
    if (!file && (errno == ENXIO || errno == EISDIR)) errno = EINVAL;  // a pipe without a reader, a folder
    if (!file) return file;
    struct stat found;
    if (::fstat(file.get(), &found) != 0) return Descriptor();
    if (!S_ISREG(found.st_mode)) {
      file.reset();
      errno = EINVAL;
      return file;
    }
    ::fcntl(file.get(), F_SETFL, flags & ~O_NONBLOCK);
    return file;
  }
  errno = ENOENT;
  return Descriptor();
}

int make_private_folder(const std::string& path, int at) {
  if (::mkdirat(at, path.c_str(), kFolderMode) != 0) return -1;
  struct stat made;
  if (::fstatat(at, path.c_str(), &made, AT_SYMLINK_NOFOLLOW) != 0) return -1;
  if (S_ISDIR(made.st_mode) && (made.st_mode & 0777) != kFolderMode)
    return ::fchmodat(at, path.c_str(), kFolderMode, 0);
  return 0;
}

int make_private_folders(const std::string& path) {
  if (path.empty()) {
    errno = ENOENT;
    return -1;
  }
  for (size_t at = 1; at <= path.size(); ++at) {
    if (at < path.size() && path[at] != '/') continue;
    const std::string part = path.substr(0, at);
    if (make_private_folder(part) == 0) continue;
    const int reason = errno;
    struct stat found;
    if (::stat(part.c_str(), &found) == 0 && S_ISDIR(found.st_mode))
      continue;  // also where making it is refused (a read-only file system)
    errno = reason == EEXIST ? ENOTDIR : reason;
    return -1;
  }
  return 0;
}

bool append_private(const std::string& path, const std::string& text) {
  Descriptor file = open_private(path, O_WRONLY | O_APPEND);
  return file && write_fully(file.get(), text) == 0;
}

std::string made_private(const std::string& path) {
  open_private(path, O_WRONLY);
  return path;
}

std::string draft_of(const std::string& path) { return path + std::string(kDraft); }

bool replace_private(const std::string& path, const std::string& text) {
  const std::string draft = draft_of(path);
  struct stat there;
  if (::lstat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode) && !S_ISLNK(there.st_mode)) {
    errno = S_ISDIR(there.st_mode) ? EISDIR : EINVAL;
    return false;
  }
  Descriptor file = create_private(draft);
  if (!file) return false;
  int reason = write_fully(file.get(), text);
  if (reason == 0) reason = sync_fully(file.get());
  if (reason == 0 && ::rename(draft.c_str(), path.c_str()) == 0) return true;
  if (reason == 0) reason = errno;
  ::unlink(draft.c_str());
  errno = reason;
  return false;
}

}  // namespace lockstep
