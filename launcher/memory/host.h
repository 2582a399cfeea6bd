// The memory of this host for a run's ranks, and whether they fit.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "launcher/memory/needs.h"

namespace lockstep::launcher {

struct HostMemory {
  int64_t bytes = 0;   // available to all ranks of this host together; 0: unknown
  std::string source;  // text: the source of the number
};
// The least of MemAvailable (with SwapFree) and, for the cgroup of this process and each above it (v1 and
// v2), its limit minus its use without file cache; or LOCKSTEP_MEMORY. `root` is prefixed to /proc and /sys.
// UserError when LOCKSTEP_MEMORY is not a valid amount.
HostMemory host_memory(const std::string& root = "");

// Whether each of `ranks` ranks on this host can allocate that many more bytes now and leave a tenth free.
// From an amount of LOCKSTEP_MEMORY, the resident bytes of each rank are subtracted.
bool room_for_more(int64_t bytes, int64_t ranks, const std::string& root = "");

int64_t resident_bytes();  // of this process; 0: unknown

// Bytes that this process may still map under `ulimit -v`; nullopt: no limit.
std::optional<int64_t> address_space_left();

// Why `ranks` ranks of a run do not fit on this host, with both sizes and the way out; "" if the exact parts
// fit. Needs are those of one rank.
std::string does_not_fit_host(const std::string& name, int64_t ranks, const MemoryNeeds& needs,
                              const HostMemory& host);
// Why the moments and activations that `ranks` ranks with their own devices keep on this host do not fit; ""
// if they do.
std::string offloaded_does_not_fit_host(const std::string& name, int64_t ranks, const MemoryNeeds& needs,
                                        const HostMemory& host);

}  // namespace lockstep::launcher
