// trainrun doctor: what of this machine a run would stumble over. Each check is one finding.
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
  std::string mend;  // "" where it is ok
};
using Findings = std::vector<Finding>;

// Processor, load, clocks, memory and its speed, /dev/shm, limits of the process and its cgroup. `root`
// stands before /proc, /sys and /dev, for tests. About half a second.
Findings host_findings(const std::string& root = "");

// The folder that runs are written to (`runs`, or where it would be made): space, kind of file system,
// whether it takes files, and how fast. At most about 2 s. Then the kernel cache and the compiler of kernels.
Findings disk_findings();

// Two ranks of this host, started as a run starts them: which MPI, the time of a small collective and the
// speed of a large one. At most 12 s. `self`: the path of trainrun.
Findings link_findings(const std::string& self);
// What each of these two ranks does: rank 0 writes what it measured to `file`, as JSON.
int link_rank(const std::string& file);

// Driver, libraries, and of each GPU its memory, clocks, temperature, errors and what slows it. One finding
// where there is none.
Findings gpu_findings();

std::string decimals(double value, int digits);  // "12.3"

}  // namespace lockstep::launcher::cli
