// Cache locks: uses flock for locks and the system clock for ages.
#include "launcher/data/cache_lock.h"

#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <thread>

#include "launcher/data/tokenizer/stop.h"

namespace lockstep::launcher::data {

namespace {
constexpr int64_t kTooYoung_ns = 2'000'000'000;
constexpr auto kPatience = std::chrono::seconds(600);
}  // namespace

bool too_young(const FileStamp& stamp) {
  const auto now = std::chrono::duration_cast<std::chrono::nanoseconds>(
                       std::chrono::system_clock::now().time_since_epoch())
                       .count();
  return now - std::max(stamp.written_ns, stamp.changed_ns) < kTooYoung_ns;
}

bool lock_entry(int fd) {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if ((errno != EWOULDBLOCK && errno != EINTR) || std::chrono::steady_clock::now() > until) return false;
    check_stop();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

std::string real_path_of(const std::string& path) {
  std::error_code none;
  return std::filesystem::canonical(path, none).string();
}

}  // namespace lockstep::launcher::data
