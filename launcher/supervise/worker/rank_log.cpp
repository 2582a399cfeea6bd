// RankLog: dup2 replaces the old file by the new one atomically, for all threads and libraries.
#include "launcher/supervise/worker/rank_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/files/private_file.h"

namespace lockstep::launcher {

RankLog::RankLog(std::string path) : RankLog(std::move(path), limit_of_environment("LOCKSTEP_LOG_LIMIT")) {}

bool RankLog::open() {
  Descriptor file = open_private(path_, O_WRONLY | O_APPEND);
  if (!file) return false;
  file_ = std::move(file);
  return true;
}

void RankLog::take_output() const {
  dup2(file_.get(), STDOUT_FILENO);
  dup2(file_.get(), STDERR_FILENO);
}

void RankLog::rotate_if_large() {
  struct stat at{};
  if (limit_ == 0 || fstat(file_.get(), &at) != 0 || at.st_size <= limit_) return;
  if (std::rename(path_.c_str(), (path_ + ".1").c_str()) != 0 || !open()) return;
  std::fflush(nullptr);
  take_output();
}

}  // namespace lockstep::launcher
