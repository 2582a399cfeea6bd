// The cores of this host that this process may use.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace lockstep::launcher {

int64_t cores_by_affinity();
// Cores that the cgroups of this process may use in the mean (cpu.max, cpu.cfs_quota_us); nothing without a
// limit. `root` stands before /proc and /sys.
std::optional<double> cgroup_cores(const std::string& root = "");
// By both, whole ones, at least 1: what runs on more is stopped in each period.
int64_t cores_of_process(const std::string& root = "");

}  // namespace lockstep::launcher
