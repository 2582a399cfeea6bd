// What this host's memory has for the ranks of a run, and whether they fit.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "launcher/memory/needs.h"

namespace lockstep::launcher {

struct HostMemory {
  int64_t bytes = 0;   // that all ranks of this host together may take; 0: not known
  std::string source;  // what says so, in words
};
// The least of MemAvailable (with SwapFree) and, for the cgroup of this process and each above it (v1 and
// v2), its limit less what it holds beside files; or LOCKSTEP_MEMORY. `root` stands before /proc and /sys.
// UserError when LOCKSTEP_MEMORY is no amount.
HostMemory host_memory(const std::string& root = "");

// Whether each of `ranks` ranks on this host can take so many bytes more now, with a tenth of what is left to
// spare; of an amount that LOCKSTEP_MEMORY gives each has what it holds already.
bool room_for_more(int64_t bytes, int64_t ranks, const std::string& root = "");

int64_t resident_bytes();  // of this process; 0: not known

// What this process may still map under `ulimit -v`; nullopt: there is no limit.
std::optional<int64_t> address_space_left();

// Why `ranks` ranks of a run cannot be on this host, both sizes and the way out; "" where the exact parts
// fit. Needs are those of one rank.
std::string does_not_fit_host(const std::string& name, int64_t ranks, const MemoryNeeds& needs,
                              const HostMemory& host);
// Why the moments and activations that `ranks` ranks with devices of their own keep on this host cannot be
// there; "" where they can.
std::string offloaded_does_not_fit_host(const std::string& name, int64_t ranks, const MemoryNeeds& needs,
                                        const HostMemory& host);

}  // namespace lockstep::launcher
