// Hosts: which ranks run on which host, and whether gradients are exchanged inside hosts first.
#pragma once

#include <cstdint>
#include <string>

#include "core/mesh/array.h"
#include "launcher/config/config.h"
#include "launcher/supervise/worker/contract.h"

namespace lockstep::launcher {

struct Hosts {
  int64_t ranks_per_node = 0;  // consecutive ranks of the world; 0: one host, or unknown
  int seats = 0;  // data ranks per host if the exchange goes within hosts first, then across; 0: all ranks
                  // exchange directly
  std::string words{};  // text about the exchange, and why it is direct on several hosts; "" on one host
};
// `launched`: ranks per host if mesh.ranks_per_node is not set.
Hosts hosts_of(const RunConfig& config, const Mesh& mesh, int64_t launched);

// Ranks per host if all hosts have the same number of consecutive ranks; else 0. Collective.
int64_t launched_per_node(Group& world, const WorkerPlace& at);

}  // namespace lockstep::launcher
