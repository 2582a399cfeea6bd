// The keys launch.*: how the hosts of a run reach each other. The command line names the hosts.
#pragma once

#include <string>
#include <vector>

#include "core/base/key.h"

namespace lockstep::launcher {

struct LaunchConfig {
  std::string network = key(&network, "launch.network", "",
                            "several hosts: the interfaces between them, as in eth0 or 10.1.0.0/16; empty: "
                            "MPI and NCCL choose. The flag --network overrides it");
  std::string ports = key(&ports, "launch.ports", "",
                          "several hosts: the TCP ports on which MPI listens, for a firewall between them, "
                          "as in 30000-30999; empty: any. The flag --ports overrides it");
};

// Adds errors in them.
void check_launch(const LaunchConfig& launch, std::vector<std::string>& errors);

}  // namespace lockstep::launcher
