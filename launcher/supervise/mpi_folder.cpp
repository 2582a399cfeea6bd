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

namespace lockstep::launcher {

namespace fs = std::filesystem;

namespace {
std::string prefix() { return str("lockstep.", geteuid(), "."); }

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
    if (name.rfind(prefix(), 0) == 0 && abandoned(at->path()))
      removed += fs::remove_all(at->path(), ignored) > 0;
  }
  return removed;
}

MpiFolder::MpiFolder() {
  const char* tmp = std::getenv("TMPDIR");
  std::string refused;
  for (const std::string& top : {std::string("/dev/shm"), std::string(tmp && *tmp ? tmp : "/tmp")}) {
    remove_abandoned_folders(top);
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
                      refused, "; mount /dev/shm, or set TMPDIR to a folder that you may write"));
}

MpiFolder::~MpiFolder() {
  std::error_code ignored;  // what cannot be removed now, the next run removes
  fs::remove_all(path_, ignored);
  close(lock_);
}

}  // namespace lockstep::launcher
