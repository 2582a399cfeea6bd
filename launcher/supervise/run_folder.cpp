// The lock of a run's folder (flock: it is released with its last holder, however that ends).
#include "launcher/supervise/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <thread>

#include "core/base/error.h"

namespace lockstep {

namespace fs = std::filesystem;

RunFolder::RunFolder(std::string path, double patience) : path_(std::move(path)) {
  std::error_code failed;
  fs::create_directories(path_, failed);
  std::string lock = path_ + "/lock";
  if (!failed) fd_ = open(lock.c_str(), O_CREAT | O_RDWR, 0644);  // without O_CLOEXEC: inherited on purpose
  if (fd_ < 0)
    throw UserError(str("cannot write the run's folder ", path_, ": ", failed ? failed.message() : std::strerror(errno),
                        "; start where you may write, or choose --name=OTHER"));
  auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(patience);
  while (flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    if (std::chrono::steady_clock::now() > until) {
      char holder[32] = "";
      ssize_t n = pread(fd_, holder, sizeof holder - 1, 0);
      close(fd_);
      throw UserError(str(path_, " is in use by another trainrun", n > 0 ? str(" (process ", trim(holder), ")") : "",
                          "; wait for it, stop it, or choose --name=OTHER"));
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
RunFolder::~RunFolder() {
  if (fd_ >= 0) close(fd_);
}

std::string next_attempt(const std::string& run_dir) {
  int64_t k = 1;
  while (fs::exists(str(run_dir, "/logs/attempt-", k))) ++k;
  return str(run_dir, "/logs/attempt-", k);
}

std::string RunFolder::new_attempt() const {
  std::string folder = next_attempt(path_);
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) throw UserError(str("cannot write ", folder, ": ", failed.message()));
  return folder;
}

void write_whole(const std::string& path, const std::string& text) {
  std::string draft = path + ".tmp";
  int fd = open(draft.c_str(), O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0644);
  bool good = fd >= 0 && write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) && fsync(fd) == 0;
  int reason = errno;
  if (fd >= 0) close(fd);
  if (good && rename(draft.c_str(), path.c_str()) == 0) return;
  if (good) reason = errno;
  unlink(draft.c_str());
  throw UserError(str("cannot write ", path, ": ", std::strerror(reason)));
}

}  // namespace lockstep
