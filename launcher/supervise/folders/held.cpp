// Takes a folder's lock, and reads and writes the lock file's text.
#include "launcher/supervise/folders/held.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/files/plain_file.h"
#include "core/files/private_file.h"
#include "core/files/remove_known.h"
#include "launcher/supervise/launch/console.h"

namespace lockstep::launcher {

namespace fs = std::filesystem;

namespace {
constexpr int kLockBytes = 8192;  // bytes: two lines, of which one is a path

// "PID\nRUN\n", or only the first line (is_lock_of).
struct Holder {
  std::string process, run;
};
std::string said_in(int fd) {
  std::string out(kLockBytes, '\0');
  const int64_t bytes = read_fully(fd, out.data(), out.size(), 0);
  out.resize(bytes < 0 ? 0 : static_cast<size_t>(bytes));
  return out;
}
bool is_said_by_us(const std::string& text) {
  const std::string first = text.substr(0, text.find('\n'));
  return text.empty() || (!first.empty() && first.size() < 12 && text.size() < kLockBytes &&
                          first.find_first_not_of("0123456789") == std::string::npos);
}
// A file with only a number may belong to any program; an earlier version wrote only that, in run folders,
// which have logs.
bool is_lock_of(const std::string& folder, const std::string& text) {
  std::error_code unknown;
  const size_t second = text.find('\n') + 1;
  return is_said_by_us(text) && (text.empty() || (second > 0 && text.substr(second).starts_with('/')) ||
                                 fs::exists(fs::symlink_status(folder + "/logs", unknown)));
}
Holder holder_in(const std::string& text) {
  if (!is_said_by_us(text)) return {};
  const auto lines = split(text, '\n');
  return {lines.empty() ? "" : lines[0], lines.size() > 1 ? lines[1] : ""};
}

std::string clock_text(time_t seconds) {
  struct tm at{};
  char text[32] = "";
  localtime_r(&seconds, &at);
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &at);
  return text;
}

// " (process 12 of /p1/runs/a, since 2026-01-01 12:00:00)"
std::string holder_text(int fd, const std::string& run) {
  const Holder holder = holder_in(said_in(fd));
  struct stat at{};
  if (holder.process.empty() || fstat(fd, &at) != 0) return "";
  return str(" (process ", holder.process,
             holder.run.empty() || holder.run == run ? "" : " of " + printable(holder.run), ", since ",
             clock_text(at.st_mtime), ")");
}
// flock(2) reports this on Lustre, NFS or FUSE.
bool has_no_locks(int reason) { return reason == ENOLCK || reason == EOPNOTSUPP || reason == ENOSYS; }
}  // namespace

void HeldFolder::open(const Words& words) {
  for (size_t end = path_.find('/', 1);; end = path_.find('/', end + 1)) {  // each folder on the way
    const std::string part = path_.substr(0, end);
    struct stat at{};
    if (lstat(part.c_str(), &at) == 0 && S_ISLNK(at.st_mode) && at.st_uid != 0 && at.st_uid != geteuid())
      throw UserError(str(words.cannot, ": ", part == path_ ? "it" : printable(part),
                          " is a link of another user (uid ", at.st_uid, "), who decides where it leads; ",
                          words.other));
    if (end == std::string::npos) break;
  }
  std::error_code unknown;
  made_ = !fs::exists(path_, unknown);
  made_lock_ = made_ || !fs::exists(fs::symlink_status(path_ + "/lock", unknown));
  const std::string lock = path_ + "/lock";
  if (make_private_folders(path_) == 0) fd_ = open_private(lock, O_RDWR).take();
  if (fd_ < 0) {
    const int reason = errno;
    const char* foreign = reason == EINVAL                   ? "no plain file"
                          : reason == ELOOP && is_link(lock) ? "a link"
                                                             : nullptr;
    throw UserError(str(words.cannot, ": ",
                        foreign ? str(lock, " is ", foreign, ", and is left as it is; move it away")
                                : str(std::strerror(reason), "; start where you may write"),
                        ", or ", words.other));
  }
  fcntl(fd_, F_SETFD, 0);  // without FD_CLOEXEC: inherited on purpose
}

HeldFolder::HeldFolder(std::string path, const std::string& run, const Words& words, double patience)
    : path_(std::move(path)), run_(run) {
  const std::string lock = path_ + "/lock";
  auto refuse = [&](const std::string& why) {
    close(fd_);
    throw UserError(why);
  };
  open(words);
  warn_of_others();
  auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(patience);
  for (;;) {
    if (flock(fd_, LOCK_EX | LOCK_NB) == 0) {
      if (is_its_own()) break;
      close(fd_), fd_ = -1;  // the previous holder removed the folder
      open(words);
      continue;
    }
    const int reason = errno;
    if (reason == EINTR) continue;
    if (reason != EWOULDBLOCK) {
      const std::string said = str(lock, " cannot be locked: ", std::strerror(reason));
      if (!words.without_lock || !has_no_locks(reason)) {
        if (made_lock_) ::unlink(lock.c_str());
        if (made_) ::rmdir(path_.c_str());
        refuse(str(words.cannot, ": ", said, "; start on another file system, or ", words.other));
      }
      warn_user(str(said, "; the run goes on, and another that writes ", path_, " is not refused"));
      break;
    }
    if (std::chrono::steady_clock::now() > until)
      refuse(str(path_, " is in use by another trainrun", holder_text(fd_, run),
                 "; wait for it, stop it, or ", words.other));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  const std::string before = said_in(fd_);
  if (!is_lock_of(path_, before))
    refuse(str(lock, " is there and is no lock of trainrun, and is left as it is; move it away, or ",
               words.other));
  run_before_ = holder_in(before).run;
}

void HeldFolder::take() const {
  const std::string now = str(getpid(), "\n", run_, "\n");
  if (ftruncate(fd_, 0) != 0 || pwrite(fd_, now.data(), now.size(), 0) < 0)
    throw UserError(not_written_text(path_ + "/lock", errno));
}

HeldFolder::~HeldFolder() {
  if (fd_ >= 0) close(fd_);
}

// The run only loads data from its folder, so this is not refused. But anyone who can write there controls
// what the run resumes from.
void HeldFolder::warn_of_others() const {
  struct stat at{};
  if (stat(path_.c_str(), &at) != 0 || (at.st_mode & S_ISVTX)) return;
  char mode[16];
  std::snprintf(mode, sizeof mode, "%04o", static_cast<unsigned>(at.st_mode & 07777));
  if (at.st_mode & S_IWOTH)
    warn_user(str(path_, " is writable for every user (mode ", mode,
                  "): what they put there is loaded as this run's; `chmod o-w ", path_, "` closes it"));
  else if (at.st_uid != 0 && at.st_uid != geteuid())
    warn_user(str(path_, " belongs to another user (uid ", at.st_uid, ", mode ", mode,
                  "), who can change what this run loads"));
}

// Whether the open file is still the one in the folder.
bool HeldFolder::is_its_own() const {
  struct stat held{}, there{};
  return fstat(fd_, &held) == 0 && stat((path_ + "/lock").c_str(), &there) == 0 &&
         held.st_dev == there.st_dev && held.st_ino == there.st_ino;
}

std::string not_written_text(const std::string& path, int reason) {
  std::string why = str(std::strerror(reason), reason == EFBIG ? "; raise ulimit -f" : "");
  for (const std::string& one : {path, draft_of(path)}) {
    struct stat at{};
    if ((reason == EINVAL || reason == EISDIR) && lstat(one.c_str(), &at) == 0 && !S_ISREG(at.st_mode))
      why = str(one, " is ", S_ISDIR(at.st_mode) ? "a folder" : "no plain file",
                ", and is left as it is; move it away");
  }
  return str("cannot write ", path, ": ", why);
}

std::string run_of_held(const std::string& folder) {
  std::string text, why;
  return read_plain(folder + "/lock", text, why, kLockBytes) ? holder_in(text).run : "";
}

}  // namespace lockstep::launcher
