// Flags of a run on several hosts, compatible with torchrun's flags of the same names.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "launcher/supervise/launch/options.h"

namespace lockstep::launcher::cli {

struct HostFlags {
  std::string nnodes, hosts, hostfile, address, endpoint, network, ports;
  int64_t node_rank = -1, port = 0;
  std::string slurm;  // options of sbatch if the run is to be submitted (at least a blank); "": it is not
};

void add_host_flags(CLI::App& app, HostFlags& flags);

// Fills launch.hosts, and launch.nproc with the ranks of all hosts. `each`: --nproc, ranks per host; `given`:
// the flag was given and applies to every host. Inside a Slurm allocation its hosts are used. UserError for
// flags that contradict each other or do not determine the hosts.
void place_on_hosts(LaunchOptions& launch, const HostFlags& flags, int64_t each, bool given);

}  // namespace lockstep::launcher::cli
