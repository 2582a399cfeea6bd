// The lock of a run's folder (flock: it is released with its last holder, however that ends).
#include "launcher/supervise/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <thread>

#include "core/base/error.h"
#include "core/base/private_file.h"
#include "core/reading/whole_number.h"
#include "launcher/supervise/console.h"

namespace lockstep::launcher {

namespace fs = std::filesystem;

RunFolder::RunFolder(std::string path, const std::string& other, double patience) : path_(std::move(path)) {
  std::string lock = path_ + "/lock";
  auto open_lock = [&] {
    std::error_code unknown;
    made_ = !fs::exists(path_, unknown);
    if (make_private_folders(path_) == 0) fd_ = open_private(lock, O_RDWR).take();
    if (fd_ < 0)
      throw UserError(str("cannot write the run's folder ", path_, ": ", std::strerror(errno),
                          "; start where you may write, or ", other));
    fcntl(fd_, F_SETFD, 0);  // without FD_CLOEXEC: inherited on purpose
  };
  open_lock();
  warn_of_others();
  auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(patience);
  for (;;) {
    if (flock(fd_, LOCK_EX | LOCK_NB) == 0) {
      if (is_its_own()) break;
      close(fd_), fd_ = -1;  // the folder was removed by the one who held it
      open_lock();
      continue;
    }
    if (std::chrono::steady_clock::now() > until) {
      char holder[32] = "";
      ssize_t n = pread(fd_, holder, sizeof holder - 1, 0);
      close(fd_);
      throw UserError(str(path_, " is in use by another trainrun",
                          n > 0 ? str(" (process ", trim(holder), ")") : "", "; wait for it, stop it, or ",
                          other));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  std::string pid = str(getpid(), "\n");
  if (ftruncate(fd_, 0) != 0 || pwrite(fd_, pid.data(), pid.size(), 0) < 0) {
    int reason = errno;
    close(fd_);
    throw UserError(str("cannot write ", lock, ": ", std::strerror(reason)));
  }
}
// What a run loads of its folder is data, so that it is not refused; but whoever may write it decides what
// the run goes on from.
void RunFolder::warn_of_others() const {
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

// Whether the file that is open is the one that the folder has.
bool RunFolder::is_its_own() const {
  struct stat held{}, there{};
  return fstat(fd_, &held) == 0 && stat((path_ + "/lock").c_str(), &there) == 0 &&
         held.st_dev == there.st_dev && held.st_ino == there.st_ino;
}

void RunFolder::keep_logs_in(const std::string& dir) const {
  const std::string link = path_ + "/logs";
  if (dir.empty()) return;
  const std::string wanted = fs::absolute(dir + "/" + fs::path(path_).filename().string()).lexically_normal();
  if (make_private_folders(wanted) != 0)
    throw UserError(str("--log-dir ", dir, ": cannot write ", wanted, ": ", std::strerror(errno)));
  std::error_code failed;
  const fs::file_status there = fs::symlink_status(link, failed);
  if (!fs::exists(there)) {
    fs::create_directory_symlink(wanted, link, failed);
    if (failed) throw UserError(str("--log-dir ", dir, ": cannot write ", link, ": ", failed.message()));
    return;
  }
  const std::string now = fs::is_symlink(there) ? fs::read_symlink(link, failed).string() : link;
  if (now != wanted)
    throw UserError(str("--log-dir ", dir, ": the logs of this run lie in ", now, " already, not in ", wanted,
                        "; leave --log-dir out, or move them there and remove ", link));
}

bool RunFolder::remove_unused() const {
  if (!made_) return false;
  std::error_code failed;
  for (fs::directory_iterator at(path_, failed), end; !failed && at != end; at.increment(failed))
    if (const auto name = at->path().filename(); name != "lock" && name != "logs") return false;
  if (failed) return false;
  const std::string logs = path_ + "/logs";
  if (fs::is_symlink(logs, failed)) fs::remove_all(fs::read_symlink(logs, failed), failed);
  fs::remove_all(path_, failed);
  return !failed;
}

RunFolder::~RunFolder() {
  if (fd_ >= 0) close(fd_);
}

std::string attempt_folder(const std::string& run_dir, int64_t k) {
  return str(run_dir, "/logs/attempt-", k);
}

std::vector<int64_t> attempts_there(const std::string& run_dir) {
  std::vector<int64_t> out;
  std::error_code failed;
  for (fs::directory_iterator at(run_dir + "/logs", failed), end; !failed && at != end;
       at.increment(failed)) {
    const std::string name = at->path().filename();
    const auto k = name.starts_with("attempt-") ? whole_number(name.substr(8)) : std::nullopt;
    if (k && *k > 0 && name == str("attempt-", *k)) out.push_back(*k);
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::string next_attempt(const std::string& run_dir) {
  const auto there = attempts_there(run_dir);
  return attempt_folder(run_dir, there.empty() ? 1 : there.back() + 1);
}

std::string RunFolder::new_attempt(int64_t keep) const {
  make_private_folders(path_ + "/logs");  // that it failed is seen by the next call
  const std::string out = next_attempt(path_);
  if (make_private_folder(out) != 0) throw UserError(str("cannot write ", out, ": ", std::strerror(errno)));
  auto there = attempts_there(path_);
  for (std::error_code ignored; keep > 0 && static_cast<int64_t>(there.size()) > keep;
       there.erase(there.begin()))
    fs::remove_all(attempt_folder(path_, there.front()), ignored);
  return out;
}

void write_whole(const std::string& path, const std::string& text) {
  if (!replace_private(path, text)) throw UserError(str("cannot write ", path, ": ", std::strerror(errno)));
}

}  // namespace lockstep::launcher
