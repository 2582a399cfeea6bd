// Creates, locks and removes MPI's private folders.
#include "launcher/supervise/folders/mpi.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>

#include "core/base/error.h"
#include "core/files/remove_known.h"
#include "launcher/supervise/launch/console.h"
#include "launcher/supervise/launch/rank_limits.h"

namespace lockstep::launcher {

namespace fs = std::filesystem;

namespace {
std::string prefix() { return str("lockstep.", geteuid(), "."); }

// lockstep.UID.PID.XXXXXX, as MpiFolder creates it.
bool is_made_name(const std::string& name) {
  constexpr size_t kRandomLetters = 6;
  const size_t dot = name.rfind('.');
  return name.starts_with(prefix()) && name.size() == dot + 1 + kRandomLetters &&
         is_numbered(name.substr(0, dot), prefix());
}

// Debian 12's Open MPI 4.1 and PMIx 4.2: segments of btl/vader, windows of osc/sm and osc/rdma, coll/sm,
// sharedfp/sm, and the PMIx server's own files; in ATTEMPT/, ATTEMPT/RANK/, or the folder itself.
bool is_mpi_entry(const Entry& entry) {
  const auto parts = split(entry.path, '/');
  const std::string& name = parts.back();
  const bool numbered = std::all_of(parts.begin(), parts.end() - 1,
                                    [](const std::string& part) { return is_numbered(part, ""); });
  if (!numbered || parts.size() > 3) return false;
  if (entry.folder) return is_numbered(name, "");
  if (name == "lock") return parts.size() == 1;
  for (const char* begin :
       {"vader_segment.", "osc_sm.", "osc_rdma.", "coll-sm-cid-", "open_mpi_shmem_mmap.", "pmix"})
    if (name.starts_with(begin)) return true;
  return name.find("_cid-") != std::string::npos && name.ends_with(".sm");
}

// True for a folder of this user whose creator has ended. A folder being created has no lock yet, so it is
// left alone for a minute.
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

std::string remove_mpi_folder(const std::string& folder) {
  if (remove_known(folder, is_mpi_entry)) return "";
  const int reason = errno;
  const std::string other = foreign_in(folder, is_mpi_entry);
  return str(folder, " is left: ",
             other.empty() ? std::string(std::strerror(reason))
                           : str("it holds ", printable(other),
                                 ", which is not known for MPI's; move it away, or "
                                 "remove the folder"));
}

int remove_abandoned_folders(const std::string& top) {
  int removed = 0;
  std::error_code failed;
  for (fs::directory_iterator at(top, failed), end; !failed && at != end; at.increment(failed)) {
    const std::string name = at->path().filename();
    if (is_made_name(name) && abandoned(at->path())) removed += remove_mpi_folder(at->path()).empty();
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
      const int reason = errno;
      remove_mpi_folder(name);
      errno = reason;
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
  if (const std::string left = remove_mpi_folder(path_); !left.empty()) warn_user(left);
  close(lock_);
}

}  // namespace lockstep::launcher
