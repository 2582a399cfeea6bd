// dup2 puts the new file in the place of the old one at once, for all threads and for what they wrote by any
// library.
#include "launcher/supervise/rank_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/private_file.h"

namespace lockstep::launcher {

namespace {
int64_t limit_of_environment() {
  const std::string text = env("LOCKSTEP_LOG_LIMIT");
  if (text.empty() || text.size() > 8 || text.find_first_not_of("0123456789") != std::string::npos)
    throw UserError(str("environment: LOCKSTEP_LOG_LIMIT is \"", shortened(text, 40),
                        "\"; give a number of MiB, or 0 for no limit"));
  return std::atoll(text.c_str()) << 20;
}
}  // namespace

RankLog::RankLog(std::string path) : RankLog(std::move(path), limit_of_environment()) {}

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
