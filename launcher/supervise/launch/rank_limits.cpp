// Rank limits: figures of Debian 12's Open MPI and PMIx, and the checks against them.
#include "launcher/supervise/launch/rank_limits.h"

#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/reading/whole_number.h"

namespace lockstep::launcher {

namespace {
constexpr int64_t kMiB = int64_t{1} << 20;
// Open files of trainrun: its own, and two pipes, a log, a record and a connection for each rank.
constexpr int64_t kOwnFiles = 16, kRankFiles = 6;
// What a soft limit is raised to where it may be: ranks inherit it, and open kernels and data of their own.
constexpr int64_t kUsualFiles = 1024;
// Address space of a process that has MPI open, without a model (measured: 269 MiB); and a segment of each
// rank, which it maps.
constexpr int64_t kAddresses = 288 * kMiB, kSegment = 4 * kMiB, kPage = 4096;
// Data of a process that compiles, without a model (measured: 78 MiB), and stack of a thread (240 KiB).
constexpr int64_t kData = 80 * kMiB, kStack = kMiB / 2;
// Tasks (processes and threads) that trainrun and a rank are at least, beside the threads that compute
// (measured: the least `ulimit -u` with which runs of 1, 2 and 4 ranks end well); MPI has some of them.
constexpr int64_t kOwnTasks = 3, kRankTasks = 6, kTasksAlone = 4;

// The tasks of this user, but for those of this process. Of processes that /proc does not show, none.
int64_t tasks_of_others() {
  int64_t out = 0;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", none)) {
    const auto pid = whole_number(entry.path().filename().string());
    if (!pid || *pid == getpid()) continue;
    std::ifstream status(entry.path() / "status");
    int64_t uid = -1, threads = 0;
    for (std::string word; status >> word;)
      if (word == "Uid:")
        status >> uid;
      else if (word == "Threads:" && status >> threads)
        break;
    if (uid == static_cast<int64_t>(getuid())) out += threads;
  }
  return out;
}

// The soft limit where it is less than `least`; nothing where it is not.
std::optional<int64_t> below(decltype(RLIMIT_AS) resource, int64_t least) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
      limit.rlim_cur >= static_cast<rlim_t>(least))
    return {};
  return static_cast<int64_t>(limit.rlim_cur);
}
std::string in_words(int64_t bytes) { return bytes_text(static_cast<double>(bytes)); }
}  // namespace

void require_memory_limits() {
  constexpr const char* kNeeds = ", and a rank needs ";
  if (const auto data = below(RLIMIT_DATA, kData))
    throw UserError(str("ulimit -d gives each process ", in_words(*data), " of data", kNeeds, in_words(kData),
                        " before it has a model; raise ulimit -d"));
  if (const auto stack = below(RLIMIT_STACK, kStack))
    throw UserError(str("ulimit -s gives each thread ", in_words(*stack), " of stack", kNeeds,
                        in_words(kStack), " before it has a model; raise ulimit -s"));
}

void require_tasks(int64_t nproc, int64_t threads) {
  rlimit limit{};
  if (getuid() == 0 || getrlimit(RLIMIT_NPROC, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  const int64_t others = tasks_of_others(),
                needed = (nproc > 1 ? kOwnTasks + kRankTasks * nproc : kTasksAlone) + (threads - 1) * nproc;
  const auto all = static_cast<rlim_t>(others + needed);
  if (limit.rlim_cur >= all) return;
  limit.rlim_cur = limit.rlim_max;
  if (limit.rlim_max >= all && setrlimit(RLIMIT_NPROC, &limit) == 0) return;
  throw UserError(str("ulimit -u is ", limit.rlim_max, ", this user has ", others,
                      " processes and threads, and trainrun and ", nproc, nproc == 1 ? " rank" : " ranks",
                      " take ", needed, " more; raise ulimit -u, or ",
                      nproc > 1 ? str("start fewer ranks, or --simulate ", nproc) : "end others"));
}

void require_limits(int64_t nproc) {
  rlimit files{};
  const int64_t needed = kOwnFiles + kRankFiles * nproc;
  const auto usual = static_cast<rlim_t>(std::max(needed, kUsualFiles));
  if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < usual) {
    const rlim_t most = files.rlim_max;
    files.rlim_cur = std::min<rlim_t>(most, usual);
    if (most < static_cast<rlim_t>(needed) || setrlimit(RLIMIT_NOFILE, &files) != 0)
      throw UserError(str("ulimit -n is ", most, ", and trainrun opens ", needed, " files for ", nproc,
                          " ranks; raise ulimit -n, or start fewer ranks, or --simulate ", nproc));
  }
  if (const auto size = below(RLIMIT_FSIZE, kSegment + kPage))
    throw UserError(str("ulimit -f gives a file ", in_words(*size), ", and each of ", nproc,
                        " ranks has one of ", in_words(kSegment),
                        " in the memory that they share; raise ulimit -f, or use --nproc 1 or --simulate ",
                        nproc));
  const int64_t space = kAddresses + nproc * kSegment;
  if (const auto addresses = below(RLIMIT_AS, space))
    throw UserError(str("ulimit -v gives each process ", in_words(*addresses),
                        " of addresses, and a rank of ", nproc, " needs ", in_words(space),
                        " before it has a model; raise ulimit -v, or use --nproc 1 or --simulate ", nproc));
}

int64_t shared_bytes(int64_t nproc) { return std::max<int64_t>(5 * kMiB, nproc * kSegment * 7 / 8); }

int64_t free_bytes_in(const std::string& folder) {
  struct statvfs at{};
  if (::statvfs(folder.c_str(), &at) != 0) return 0;
  if (at.f_blocks == 0) return std::numeric_limits<int64_t>::max();  // a tmpfs without a size
  return static_cast<int64_t>(at.f_bavail) * static_cast<int64_t>(at.f_frsize);
}

}  // namespace lockstep::launcher
