// Flags of a run on several hosts, with torchrun's meaning where torchrun has them, and the hosts they mean.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "launcher/supervise/options.h"

namespace lockstep::launcher::cli {

struct HostFlags {
  std::string nnodes, hosts, hostfile, address, endpoint, network, ports;
  int64_t node_rank = -1, port = 0;
  std::string slurm;  // options of sbatch, where the run is to be submitted: at least a blank; "": it is not
};

void add_host_flags(CLI::App& app, HostFlags& flags);

// Fills launch.hosts, and launch.nproc with the ranks of all hosts. `each`: --nproc, ranks per host; `given`:
// it was given, and holds for every host. Inside a Slurm allocation its hosts are taken. UserError for flags
// that contradict one another, or do not say where the hosts are.
void place_on_hosts(LaunchOptions& launch, const HostFlags& flags, int64_t each, bool given);

}  // namespace lockstep::launcher::cli
