// The cores of this host that this process may use.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace lockstep::launcher {

int64_t cores_by_affinity();
// Average number of cores that this process's cgroups may use (cpu.max, cpu.cfs_quota_us); nullopt without a
// limit. `root` is prefixed to /proc and /sys.
std::optional<double> cgroup_cores(const std::string& root = "");
// The usable number by both limits, rounded down, at least 1: more threads would be throttled in each period.
int64_t cores_of_process(const std::string& root = "");

}  // namespace lockstep::launcher
