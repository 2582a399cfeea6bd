// trainrun doctor: checks this machine for problems of a run. Each check gives one finding.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::launcher::cli {

enum class Health { ok, warn, fail };
struct Finding {
  Health health = Health::ok;
  std::string what, value;
  std::string mend;  // "" if ok
};
using Findings = std::vector<Finding>;

// Processor, load, clocks, memory and its speed, /dev/shm, limits of the process and its cgroup. `root` is
// prefixed to /proc, /sys and /dev, for tests. About half a second.
Findings host_findings(const std::string& root = "");

// The folder of runs (`runs`, or where it would be created): free space, kind of file system, writability and
// speed. At most about 2 s. Then the kernel cache and the kernel compiler.
Findings disk_findings();

// Two ranks on this host, started like a run's: the MPI version, the time of a small collective and the speed
// of a large one. At most 12 s. `self`: the path of trainrun.
Findings link_findings(const std::string& self);
// The work of each of these two ranks: rank 0 writes its measurements to `file`, as JSON.
int link_rank(const std::string& file);

// Driver, libraries, and each GPU's memory, clocks, temperature, errors and throttle reasons. One finding if
// there is no GPU.
Findings gpu_findings();

std::string decimals(double value, int digits);  // "12.3"

}  // namespace lockstep::launcher::cli
