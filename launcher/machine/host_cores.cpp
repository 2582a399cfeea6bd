// Host cores: uses sched_getaffinity(2) and the files of cgroups.
#include "launcher/machine/host_cores.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <thread>

#include "core/base/text.h"
#include "core/reading/whole_number.h"

namespace lockstep::launcher {

namespace {
std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return trim(line);
}

std::optional<double> cores_in(const std::string& quota, const std::string& period) {
  const auto above = whole_number(quota), below = whole_number(period);  // "max", -1: no limit
  if (!above || !below || *above <= 0 || *below <= 0) return {};
  return static_cast<double>(*above) / static_cast<double>(*below);
}

// cpu.max of a cgroup of version 2, "150000 100000"; cpu.cfs_quota_us of version 1, -1 for none.
std::optional<double> quota_in(const std::string& folder) {
  const auto words = split(first_line(folder + "/cpu.max"), ' ');
  if (words.size() == 2) return cores_in(words[0], words[1]);
  return cores_in(first_line(folder + "/cpu.cfs_quota_us"), first_line(folder + "/cpu.cfs_period_us"));
}
}  // namespace

int64_t cores_by_affinity() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0
             ? CPU_COUNT(&set)
             : static_cast<int64_t>(std::thread::hardware_concurrency());
}

std::optional<double> cgroup_cores(const std::string& root) {
  std::optional<double> out;
  auto look = [&](const std::string& folder) {
    if (const auto quota = quota_in(folder)) out = std::min(out.value_or(*quota), *quota);
  };
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const auto parts = split(line, ':');  // "0::/a/b", "4:cpu,cpuacct:/a/b"
    if (parts.size() < 3) continue;
    const bool second = parts[1].empty();
    if (!second && (',' + parts[1] + ',').find(",cpu,") == std::string::npos) continue;
    std::string path = trim(parts[2]);
    for (;;) {  // the group and those above it
      if (second)
        look(root + "/sys/fs/cgroup" + path);
      else
        look(root + "/sys/fs/cgroup/cpu" + path), look(root + "/sys/fs/cgroup/cpu,cpuacct" + path);
      const size_t slash = path.rfind('/');
      if (path.empty() || path == "/" || slash == std::string::npos) break;
      path.resize(slash);
    }
    look(root + (second ? "/sys/fs/cgroup" : "/sys/fs/cgroup/cpu"));
  }
  return out;
}

int64_t cores_of_process(const std::string& root) {
  int64_t cores = cores_by_affinity();
  if (const auto quota = cgroup_cores(root); quota && *quota < static_cast<double>(cores))
    cores = static_cast<int64_t>(*quota);
  return std::max<int64_t>(1, cores);
}

}  // namespace lockstep::launcher
