// Making, locking and removing.
#include "launcher/supervise/mpi_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>

#include "core/base/error.h"
#include "core/base/remove_known.h"
#include "launcher/supervise/rank_limits.h"

namespace lockstep::launcher {

namespace fs = std::filesystem;

namespace {
std::string prefix() { return str("lockstep.", geteuid(), "."); }

// lockstep.UID.PID.XXXXXX, as MpiFolder makes it.
bool is_made_name(const std::string& name) {
  constexpr size_t kRandomLetters = 6;
  const size_t dot = name.rfind('.');
  return name.starts_with(prefix()) && name.size() == dot + 1 + kRandomLetters &&
         is_numbered(name.substr(0, dot), prefix());
}

// True for a folder of this user whose maker has gone. One that is being made has no lock yet: it is left
// alone for a minute.
bool abandoned(const std::string& folder) {
  int at = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (at < 0) return false;
  struct stat is{};
  bool own = fstat(at, &is) == 0 && is.st_uid == geteuid(), gone = false;
  int lock = own ? openat(at, "lock", O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC) : -1;
  if (lock >= 0) {
    gone = flock(lock, LOCK_EX | LOCK_NB) == 0;
    close(lock);
  } else if (own && errno == ENOENT) {
    gone = time(nullptr) - is.st_mtime > 60;
  }
  close(at);
  return gone;
}
}  // namespace

int remove_abandoned_folders(const std::string& top) {
  int removed = 0;
  std::error_code failed;
  for (fs::directory_iterator at(top, failed), end; !failed && at != end; at.increment(failed)) {
    const std::string name = at->path().filename();
    std::error_code ignored;  // another process removes it too
    if (is_made_name(name) && abandoned(at->path())) removed += fs::remove_all(at->path(), ignored) > 0;
  }
  return removed;
}

MpiFolder::MpiFolder(int64_t bytes) {
  const char* tmp = std::getenv("TMPDIR");
  std::string refused;
  std::error_code unknown;
  for (const std::string& top : {std::string("/dev/shm"), std::string(tmp && *tmp ? tmp : "/tmp")}) {
    remove_abandoned_folders(top);
    if (const int64_t room = free_bytes_in(top); room < bytes && fs::is_directory(top, unknown)) {
      refused +=
          str(refused.empty() ? "" : ", ", top, " (it has room for ", bytes_text(static_cast<double>(room)),
              ", and they take ", bytes_text(static_cast<double>(bytes)), ")");
      continue;
    }
    std::string name = str(top, "/", prefix(), getpid(), ".XXXXXX");
    if (mkdtemp(name.data())) {
      lock_ = open((name + "/lock").c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
      if (lock_ >= 0 && flock(lock_, LOCK_EX | LOCK_NB) == 0) {
        path_ = name;
        return;
      }
      std::error_code ignored;  // the reason is told below
      fs::remove_all(name, ignored);
    }
    refused += str(refused.empty() ? "" : ", ", top, " (", std::strerror(errno), ")");
  }
  throw UserError(str("several ranks need a folder for the memory that they share, and none can be made in ",
                      refused,
                      "; mount /dev/shm, make it larger (mount -o remount,size=1G /dev/shm; docker run "
                      "--shm-size=1g), or set "
                      "TMPDIR to a folder that you may write and that has room"));
}

MpiFolder::~MpiFolder() {
  std::error_code ignored;  // what cannot be removed now, the next run removes
  fs::remove_all(path_, ignored);
  close(lock_);
}

}  // namespace lockstep::launcher
