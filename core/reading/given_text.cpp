// Checks the file type, then reads to the end or to the limit.
#include "core/reading/given_text.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <tuple>

#include "core/base/text.h"
#include "core/files/plain_file.h"

namespace lockstep {

namespace {
std::string size_words(int64_t bytes) { return bytes_text(static_cast<double>(bytes)); }

GivenText too_large(const std::string& has, int64_t limit) {
  return {"", str("it has ", has, ", and at most ", size_words(limit), " are read")};
}

GivenText read_stream(int fd, int64_t limit) {
  GivenText out;
  std::string part(1 << 16, '\0');
  for (;;) {
    const ssize_t got = ::read(fd, part.data(), part.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return {"", str("it cannot be read: ", std::strerror(errno))};
    if (got == 0) return out;
    out.text.append(part, 0, static_cast<size_t>(got));
    if (static_cast<int64_t>(out.text.size()) > limit)
      return too_large(str("more than ", size_words(limit)), limit);
  }
}

// Keeps the texts that this process read from pipes, by path, device and inode.
GivenText read_stream_once(const std::string& path, const struct stat& at, int64_t limit) {
  static std::mutex guard;
  static std::map<std::tuple<std::string, dev_t, ino_t>, GivenText> given;
  const std::lock_guard<std::mutex> hold(guard);
  const auto [found, fresh] = given.try_emplace({path, at.st_dev, at.st_ino});
  if (!fresh) return found->second;
  const Descriptor fd(open_again(path, O_RDONLY | O_NOCTTY));
  return found->second = fd ? read_stream(fd.get(), limit)
                            : GivenText{"", str("it cannot be opened: ", std::strerror(errno))};
}
}  // namespace

GivenText read_given(const std::string& path, int64_t limit) {
  struct stat at{};
  if (::stat(path.c_str(), &at) != 0)
    return {"", errno == ENOENT || errno == ENOTDIR ? "it is not there" : std::strerror(errno)};
  if (S_ISDIR(at.st_mode)) return {"", "it is a folder"};
  const bool of_a_shell = path.starts_with("/dev/") || path.starts_with("/proc/");
  if (S_ISFIFO(at.st_mode) && !of_a_shell) return {"", "it is a FIFO"};
  if ((S_ISFIFO(at.st_mode) || S_ISCHR(at.st_mode) || S_ISSOCK(at.st_mode)) && of_a_shell)
    return read_stream_once(path, at, limit);
  const PlainFile file = open_plain(path);
  if (!file.fd) return {"", file.code == EINVAL ? file.why : str("it cannot be opened: ", file.why)};
  if (file.bytes > limit) return too_large(size_words(file.bytes), limit);
  return read_stream(file.fd.get(), limit);  // files of /proc and /sys say 0 bytes
}

}  // namespace lockstep
