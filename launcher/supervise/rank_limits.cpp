// Figures of Debian 12's Open MPI and PMIx.
#include "launcher/supervise/rank_limits.h"

#include <sys/resource.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <limits>

#include "core/base/error.h"
#include "core/base/text.h"

namespace lockstep::launcher {

namespace {
constexpr int64_t kMiB = int64_t{1} << 20;
// Open files of trainrun: its own, and two pipes, a log, a record and a connection for each rank.
constexpr int64_t kOwnFiles = 16, kRankFiles = 6;
// What a soft limit is raised to where it may be: ranks inherit it, and open kernels and data of their own.
constexpr int64_t kUsualFiles = 1024;
// Address space of a process that has MPI open, without a model; and a segment of each rank, which it maps.
constexpr int64_t kAddresses = 240 * kMiB, kSegment = 4 * kMiB, kPage = 4096;
}  // namespace

void require_limits(int64_t nproc) {
  rlimit files{}, addresses{}, size{};
  const int64_t needed = kOwnFiles + kRankFiles * nproc;
  const auto usual = static_cast<rlim_t>(std::max(needed, kUsualFiles));
  if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < usual) {
    const rlim_t most = files.rlim_max;
    files.rlim_cur = std::min<rlim_t>(most, usual);
    if (most < static_cast<rlim_t>(needed) || setrlimit(RLIMIT_NOFILE, &files) != 0)
      throw UserError(str("ulimit -n is ", most, ", and trainrun opens ", needed, " files for ", nproc,
                          " ranks; raise ulimit -n, or start fewer ranks, or --simulate ", nproc));
  }
  if (getrlimit(RLIMIT_FSIZE, &size) == 0 && size.rlim_cur != RLIM_INFINITY &&
      size.rlim_cur < static_cast<rlim_t>(kSegment + kPage))
    throw UserError(
        str("ulimit -f gives a file ", bytes_text(static_cast<double>(size.rlim_cur)), ", and each of ",
            nproc, " ranks has one of ", bytes_text(static_cast<double>(kSegment)),
            " in the memory that they share; raise ulimit -f, or use --nproc 1 or --simulate ", nproc));
  const int64_t space = kAddresses + nproc * kSegment;
  if (getrlimit(RLIMIT_AS, &addresses) == 0 && addresses.rlim_cur != RLIM_INFINITY &&
      addresses.rlim_cur < static_cast<rlim_t>(space))
    throw UserError(str("ulimit -v gives each process ", bytes_text(static_cast<double>(addresses.rlim_cur)),
                        " of addresses, and a rank of ", nproc, " needs ",
                        bytes_text(static_cast<double>(space)),
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
