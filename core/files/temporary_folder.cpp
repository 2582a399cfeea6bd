// Creates temporary folders and removes those of ended processes.
#include "core/files/temporary_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>

#include "core/base/error.h"
#include "core/files/trusted_path.h"

namespace lockstep {

namespace fs = std::filesystem;

namespace {
constexpr size_t kRandomLetters = 6;  // that mkdtemp appends
constexpr int kTries = 64;
constexpr time_t kYoungSeconds = 60;  // the creator of a younger folder may not have locked it yet

Descriptor open_folder(const std::string& path) {
  return Descriptor(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

bool left_by_name(const fs::path& path) {
  struct stat at;
  return ::lstat(path.c_str(), &at) == 0 && S_ISDIR(at.st_mode) && at.st_uid == ::geteuid() &&
         ::time(nullptr) - at.st_mtime >= kYoungSeconds;
}

// If this process can lock a folder of ours, the folder's process has ended. Other processes create and
// remove folders at the same time, so errors are ignored: the next process tries again.
void remove_left(const std::string& temporary, const std::string& start) {
  std::error_code failed;
  for (fs::directory_iterator at(temporary, failed), end; !failed && at != end; at.increment(failed)) {
    const std::string name = at->path().filename();
    if (!name.starts_with(start) || name.size() != start.size() + kRandomLetters) continue;
    if (!left_by_name(at->path())) continue;
    Descriptor folder = open_folder(at->path());
    if (!folder || ::flock(folder.get(), LOCK_EX | LOCK_NB) != 0) continue;
    std::error_code ignored;
    fs::remove_all(at->path(), ignored);
  }
}
}  // namespace

TemporaryFolder::TemporaryFolder(const std::string& kind) {
  std::error_code failed;
  const std::string temporary = fs::temp_directory_path(failed).string(),
                    start = str("lockstep-scratch-", kind, "-");
  auto refuse = [&](const std::string& why) {
    throw UserError(
        str("cannot make a folder for temporary files", failed ? "" : " in " + temporary, ": ", why));
  };
  if (failed) refuse(failed.message() + "; set TMPDIR to a folder with space");
  // In a folder where others may rename entries, they could replace even a private folder.
  if (TrustedOpen opened = open_trusted_folder(temporary); opened.distrusted())
    refuse(opened.why + "; set TMPDIR to a folder of your own");
  remove_left(temporary, start);
  for (int tries = 0; tries < kTries; ++tries) {
    path_ = str(temporary, "/", start, std::string(kRandomLetters, 'X'));
    if (!::mkdtemp(path_.data())) refuse(str(std::strerror(errno), "; set TMPDIR to a folder with space"));
    folder_ = open_folder(path_);
    if (!folder_ && errno == ENOENT) continue;  // another process has removed it
    if (!folder_) refuse(std::strerror(errno));
    if (::flock(folder_.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK) continue;       // another process is removing it
      all_.add(Unfinished::Kind::tree, path_);  // no locks here, so no other process takes it for abandoned
      return;
    }
    if (std::error_code gone; !fs::is_directory(path_, gone)) continue;
    all_.add(Unfinished::Kind::tree, path_);
    return;
  }
  refuse("another process removes each that is made; set TMPDIR to another folder");
}

}  // namespace lockstep
