// Limits the size of the kernel cache: the least recently used files are removed first.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <tuple>
#include <vector>

#include "compiler/codegen/cache/kernel_cache.h"

namespace lockstep::compiler::cpu {

namespace {
// An entry, or the draft of a killed writer. The folder may contain other users' files.
bool is_entry(const std::string& name) {
  const size_t end = name.find(".kernels");
  return end != 0 && end != std::string::npos && name.find_first_not_of("0123456789abcdef") == end &&
         (end + 8 == name.size() || name.ends_with(".writing"));
}
}  // namespace

int64_t KernelCache::prune(int64_t limit) const {
  if (!folder_) return 0;
  struct Used {
    int64_t seconds, nanoseconds, bytes;
    std::string name;
  };
  std::vector<Used> files;
  int64_t total = 0;
  std::error_code failed;
  for (std::filesystem::directory_iterator entry(dir_, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    const std::string name = entry->path().filename();
    struct stat at{};
    if (!is_entry(name) || ::fstatat(folder_.get(), name.c_str(), &at, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISREG(at.st_mode))
      continue;
    files.push_back({at.st_mtim.tv_sec, at.st_mtim.tv_nsec, at.st_size, name});
    total += at.st_size;
  }
  std::sort(files.begin(), files.end(), [](const Used& a, const Used& b) {
    return std::tie(a.seconds, a.nanoseconds, a.name) < std::tie(b.seconds, b.nanoseconds, b.name);
  });
  int64_t gone = 0;
  for (const auto& file : files) {
    if (total - gone <= limit) break;
    if (::unlinkat(folder_.get(), file.name.c_str(), 0) == 0) gone += file.bytes;
  }
  return gone;
}

}  // namespace lockstep::compiler::cpu
