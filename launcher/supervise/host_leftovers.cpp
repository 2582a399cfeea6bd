// By exact names, and by who still has them.
#include "launcher/supervise/host_leftovers.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <set>

#include "core/base/error.h"
#include "core/base/remove_known.h"
#include "core/reading/whole_number.h"

namespace lockstep::launcher {

namespace fs = std::filesystem;

namespace {
constexpr time_t kYoung = 60;  // seconds

bool is_old_and_own(const fs::path& path, mode_t kind) {
  struct stat at{};
  return lstat(path.c_str(), &at) == 0 && (at.st_mode & S_IFMT) == kind && at.st_uid == geteuid() &&
         time(nullptr) - at.st_mtime > kYoung;
}

// vader_segment.HOST.UID.JOB.RANK; JOB is hexadecimal.
bool is_segment(const std::string& name, const std::string& host) {
  const std::string before = str("vader_segment.", host, ".", geteuid(), ".");
  const size_t dot = name.rfind('.');
  return name.starts_with(before) && dot > before.size() && is_numbered(name.substr(dot), ".") &&
         name.substr(before.size(), dot - before.size()).find_first_not_of("0123456789abcdef") ==
             std::string::npos;
}

// Files below `folder` that processes of this user have mapped or open.
std::set<std::string> in_use_below(const std::string& folder) {
  std::set<std::string> out;
  std::error_code none;
  for (fs::directory_iterator at("/proc", none), end; !none && at != end; at.increment(none)) {
    if (!is_numbered(at->path().filename().string(), "")) continue;
    std::ifstream maps(at->path() / "maps");
    for (std::string line; std::getline(maps, line);)
      if (const size_t path = line.find(folder + "/"); path != std::string::npos)
        out.insert(line.substr(path));
    std::error_code gone;
    for (fs::directory_iterator file(at->path() / "fd", gone), last; !gone && file != last;
         file.increment(gone)) {
      std::error_code closed;
      if (const std::string to = fs::read_symlink(file->path(), closed).string();
          to.starts_with(folder + "/"))
        out.insert(to);
    }
  }
  return out;
}

int remove_segments(const std::string& host, const std::string& shm) {
  std::set<std::string> left;
  std::error_code none;
  for (fs::directory_iterator at(shm, none), end; !none && at != end; at.increment(none))
    if (is_segment(at->path().filename().string(), host) && is_old_and_own(at->path(), S_IFREG))
      left.insert(at->path().string());
  if (left.empty()) return 0;
  int removed = 0;
  const std::set<std::string> used = in_use_below(shm);
  for (const std::string& path : left) removed += !used.count(path) && ::unlink(path.c_str()) == 0;
  return removed;
}

int remove_sessions(const std::string& host, const std::string& temporary) {
  const fs::path top = fs::path(temporary) / str("ompi.", host, ".", geteuid());
  struct stat own{};
  if (lstat(top.c_str(), &own) != 0 || !S_ISDIR(own.st_mode) || own.st_uid != geteuid()) return 0;
  int removed = 0;
  std::error_code none;
  for (fs::directory_iterator at(top, none), end; !none && at != end; at.increment(none)) {
    const std::string name = at->path().filename();
    if (!is_numbered(name, "pid.") || !is_old_and_own(at->path(), S_IFDIR)) continue;
    const auto process = whole_number<pid_t>(name.substr(4));
    const bool gone = process && ::kill(*process, 0) != 0 && errno == ESRCH;
    std::error_code ignored;  // another run removes it, too
    if (gone) removed += fs::remove_all(at->path(), ignored) > 0;
  }
  return removed;
}
}  // namespace

int remove_left_by_mpi(const std::string& host, const std::string& shm, const std::string& temporary) {
  const char* tmp = std::getenv("TMPDIR");
  const std::string top = !temporary.empty() ? temporary : tmp && *tmp ? tmp : "/tmp";
  return remove_segments(host, shm) + remove_sessions(host, top);
}

}  // namespace lockstep::launcher
