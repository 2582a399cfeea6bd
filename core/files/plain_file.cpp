// Opens plain files without blocking, then checks the file type.
#include "core/files/plain_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/base/text.h"
#include "core/files/private_file.h"
#include "core/files/shared_file.h"
#include "core/files/unfinished.h"

namespace lockstep {

namespace {
PlainFile refused(int code, std::string why) {
  PlainFile out;
  out.code = code;
  out.why = std::move(why);
  return out;
}

const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISLNK(mode)) return "a symbolic link";
  return "a device";
}

PlainFile not_plain(mode_t mode) {
  return refused(S_ISDIR(mode) ? EISDIR : EINVAL, str("it is ", kind_of(mode), ", not a plain file"));
}

// The error of open(2), described by the file type if that is the reason: a socket, a FIFO without a reader,
// a link that is not followed.
PlainFile not_opened(const std::string& path, int code, bool follow) {
  struct stat at{};
  bool there = (follow ? ::stat(path.c_str(), &at) : ::lstat(path.c_str(), &at)) == 0;
  if (there && !S_ISREG(at.st_mode) &&
      (code == ENXIO || code == ELOOP || code == EISDIR || code == ENODEV || code == EINVAL))
    return not_plain(at.st_mode);
  return refused(code, std::strerror(code));
}

PlainFile looked_at(int fd) {
  PlainFile out;
  out.fd = Descriptor(fd);
  struct stat at{};
  if (::fstat(fd, &at) != 0) return refused(errno, std::strerror(errno));
  if (!S_ISREG(at.st_mode)) return not_plain(at.st_mode);
  out.bytes = static_cast<int64_t>(at.st_size);
  if (int flags = ::fcntl(fd, F_GETFL); flags >= 0) ::fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
  return out;
}
}  // namespace

PlainFile open_plain(const std::string& path) {
  int fd = open_again(path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
  return fd < 0 ? not_opened(path, errno, true) : looked_at(fd);
}

PlainFile create_plain(const std::string& path) {
  PlainFile out;
  out.fd = create_private(path);
  return out.fd ? std::move(out) : not_opened(path, errno, false);
}

PlainFile create_shared(const std::string& path) {
  PlainFile out;
  out.fd = create_shared_descriptor(path);
  return out.fd ? std::move(out) : not_opened(path, errno, false);
}

std::string write_shared(const std::string& path, const std::function<int(const Descriptor& file)>& put) {
  struct stat at{};
  if (::lstat(path.c_str(), &at) == 0 && !S_ISREG(at.st_mode) && !S_ISLNK(at.st_mode))
    return create_shared(path).why;
  const std::string draft = draft_of(str(path, ".", ::getpid()));
  Unfinished made(Unfinished::Kind::entry, draft);
  const PlainFile file = create_shared(draft);
  if (!file.fd) return file.why;
  int code = put(file.fd);
  if (code == 0 && ::rename(draft.c_str(), path.c_str()) != 0) code = errno;
  if (code) return std::strerror(code);
  made.keep();
  return "";
}

bool read_plain(const std::string& path, std::string& text, std::string& why, int64_t limit) {
  PlainFile file = open_plain(path);
  why = file.why;
  if (!file.fd) return false;
  if (file.bytes > limit) {
    why = str("it has ", file.bytes, " bytes; at most ", limit, " are read");
    return false;
  }
  text.resize(file.bytes);
  int64_t got = read_fully(file.fd.get(), text.data(), text.size(), 0);
  if (got < 0) {
    why = std::strerror(errno);
    return false;
  }
  text.resize(got);  // it may have been cut meanwhile
  return true;
}

}  // namespace lockstep
